// Two variants as tabs, for screens on which they do not fit side by side.

import { html } from "./dom.js";

/** Draw the tabs of these variants; `choose` is called with the number of the one that is wanted. */
export function drawTabs(root, variants, front, choose) {
  root.hidden = variants.length < 2;
  const focused = root.contains(document.activeElement);
  const tabs = variants.map(({ letter, badge, name, label, right }, i) => html("button", {
    type: "button", role: "tab", id: `tab-${letter}`, "aria-selected": String(i === front), "aria-controls": `pane-${letter}`,
    tabindex: i === front ? 0 : -1, onclick: () => choose(i),
  }, html("span", { class: badge }, letter), html("span", { class: "name" }, name),
  label !== undefined && html("b", {}, label),
  right !== null && html("span", { class: right ? "right" : "wrong", "aria-label": right ? "correct" : "wrong" }, right ? "✓" : "✗")));
  root.onkeydown = (event) => {
    const to = { ArrowLeft: front - 1, ArrowRight: front + 1, Home: 0, End: variants.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(to, variants.length - 1)));
  };
  root.replaceChildren(...tabs);
  if (focused) tabs[front].focus();
}
