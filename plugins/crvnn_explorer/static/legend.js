// What the colours mean, beside what they colour.

import { html } from "./dom.js";

const REACH = matchMedia("(hover: none)").matches ? "Tap" : "Point at";

function headed(title, keys, more = null) {
  return html("div", { class: "over" }, html("h2", {}, title), keys.length > 0 && html("p", { class: "keys" },
    keys.map(([swatch, words]) => html("span", {}, swatch && html("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), words))), more);
}

/**
 * Above a tree; the steps in which it is made need no key where there are none. `gold` is whether the gold tree is drawn,
 * and `notes` say how far the tree agrees with it, and what the tree has that the sentence vector does not.
 */
export function treeKeys(sequence, difference, gold, notes) {
  const late = sequence.tree.nodes.some((node) => node.step === null);
  return headed("Tree", [
    ...(sequence.exists.length ? [["e", "made"], ["c", "made in this step"], ["n", "made later"]] : []),
    ...(late && sequence.exists.length ? [["dashed", "joined only at the end"]] : []),
    ...(sequence.conflicts ? [["x", "lost in a conflict"]] : []),
    ...(difference?.hasTrees ? [["d", "not in the other tree"]] : []),
    ...(gold ? [["g", "below: gold tree, dashed where it differs"]] : []),
  ], notes);
}

/** Above the steps. */
export function stepKeys(difference) {
  return headed("Steps", [
    ["e", "e: still exists"], ["c", "c: joins its right neighbour"],
    difference?.comparable ? ["d", "differs"] : ["", `${REACH} a token for its neighbours.`],
  ]);
}
