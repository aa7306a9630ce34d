// Where the columns of tokens are: the same in the tree and in the steps below it.

import { clipped } from "./dom.js";

export const FONT = '13px ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace';
// In pixels; the second of each where there is little room.
const GUTTER = [44, 27], NARROW = [34, 22], PADDING = [14, 4], GAP = [4, 2], LITTLE = 480;

const context = document.createElement("canvas").getContext("2d");

/** Columns for tokens: their middles, widths and shown texts, and the width of the whole. */
export function columns(tokens, room = 0) {
  const [gutter, narrow, padding, gap] = [GUTTER, NARROW, PADDING, GAP].map((sizes) => sizes[room < LITTLE ? 1 : 0]);
  context.font = FONT;
  const labels = tokens.map((token) => clipped(token));
  let widths = labels.map((label) => Math.max(narrow, Math.ceil(context.measureText(label).width) + padding));
  const needed = gutter + widths.reduce((sum, width) => sum + width + gap, 0) + gap;
  if (room > needed) {
    const more = Math.min((room - needed) / tokens.length, 34);
    widths = widths.map((width) => width + more);
  }
  const middles = [];
  let x = gutter;
  for (const width of widths) {
    middles.push(x + width / 2);
    x += width + gap;
  }
  return { labels, widths, middles, width: Math.ceil(x + gap), gutter, margin: 2 * gap };
}
