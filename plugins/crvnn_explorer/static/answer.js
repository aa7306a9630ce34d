// What a model says: the label, and how sure it is of each class.

import { html, percent } from "./dom.js";

const MOST = 12;

/** Bars for the classes: upright where their names are short, else lying. */
export function drawAnswer(answer, expected) {
  const all = Object.entries(answer.probabilities);
  const upright = all.length > 5 && all.every(([name]) => name.length <= 3);
  const listed = all.length > MOST && !upright ? [...all].sort((a, b) => b[1] - a[1]).slice(0, MOST) : all;
  const bars = listed.map(([name, chance]) => {
    const bar = html("span", { class: "bar" });
    bar.style.setProperty("--part", chance.toFixed(4));
    const best = name === answer.label;
    return html("li", { class: best ? "best" : "", title: `${name}: ${percent(chance)}` },
      html("span", { class: "name" }, name), html("span", { class: "bar-room" }, bar),
      html("span", { class: "chance" }, percent(chance)));
  });
  const verdict = html("p", { class: "verdict" },
    html("strong", {}, answer.label), " ", html("span", {}, percent(answer.probabilities[answer.label])));
  if (expected !== null) {
    const right = expected === answer.label;
    verdict.append(" ", html("span", { class: right ? "right" : "wrong" }, right ? "✓ as expected" : `✗ expected ${expected}`));
  }
  return { verdict, chart: html("ul", { class: upright ? "bars upright" : "bars", "aria-label": "Probabilities" }, bars) };
}
