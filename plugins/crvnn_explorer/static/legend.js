// What the colours mean, beside what they colour.

import { html } from "./dom.js";

const REACH = matchMedia("(hover: none)").matches ? "Tap" : "Point at";

function headed(title, keys) {
  return html("div", { class: "over" }, html("h2", {}, title), keys.length > 0 && html("p", { class: "keys" },
    keys.map(([swatch, words]) => html("span", {}, swatch && html("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), words))));
}

/** Above a tree; one without steps needs no key. */
export function treeKeys(sequence, difference) {
  if (!sequence.exists.length) return headed("Tree", []);
  const late = sequence.tree.nodes.some((node) => node.step === null);
  return headed("Tree", [
    ["e", "made"], ["c", "made in this step"], ["n", "made later"],
    ...(late ? [["dashed", "joined only at the end"]] : []),
    ...(difference?.hasTrees ? [["d", "not in the other tree"]] : []),
  ]);
}

/** Above the steps. */
export function stepKeys(difference) {
  return headed("Steps", [
    ["e", "e: still exists"], ["c", "c: joins its right neighbour"],
    difference?.comparable ? ["d", "differs"] : ["", `${REACH} a token for its neighbours.`],
  ]);
}
