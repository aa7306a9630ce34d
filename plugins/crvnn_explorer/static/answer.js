// What a model says: the label, and how sure it is of each class.

import { html, percent } from "./dom.js";

const MOST = 12;

/** Whether the prediction is the true label; null where that is not known. */
export function isRight(answer, label) {
  const gold = label ?? answer.gold.label;
  return gold === null ? null : gold === answer.label;
}

/**
 * The prediction, and bars for the classes: upright where their names are short, else lying.
 * `label` is the true one of an example; that of a text is known where the task can compute it.
 */
export function drawAnswer(answer, label) {
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
  const verdict = html("p", { class: "verdict" }, html("span", { class: "what" }, "predicted"), " ",
    html("strong", {}, answer.label), " ", html("span", {}, percent(answer.probabilities[answer.label])));
  const right = isRight(answer, label);
  if (right !== null) {
    verdict.append(" ", html("span", { class: right ? "right" : "wrong" }, right ? "✓ correct" : `✗ wrong, true label ${label ?? answer.gold.label}`));
  }
  return { verdict, chart: html("ul", { class: upright ? "bars upright" : "bars", "aria-label": "Probability of each label" }, bars) };
}
