// What is looked at, kept in the address so that a view can be shared and reloaded.

export function emptyPane(model) {
  return { model, parts: {}, settings: {}, hard: false };
}

function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function pane(found, known) {
  if (!isTable(found) || !known.includes(found.model)) return null;
  return {
    model: found.model,
    parts: isTable(found.parts) ? found.parts : {},
    settings: isTable(found.settings) ? found.settings : {},
    hard: found.hard === true,
  };
}

/**
 * A view has texts, panes, whether gold trees are drawn, and a frame: null for the end, undefined where nobody has chosen
 * one, so that the most telling is shown.
 */
export function emptyView(model) {
  return { texts: [""], panes: [emptyPane(model)], frame: undefined, gold: false };
}

/** The view in an address; null where it holds none, or one of runs that are not here. */
export function fromHash(hash, known) {
  if (!hash || hash === "#") return null;
  try {
    const found = JSON.parse(decodeURIComponent(hash.slice(1)));
    const panes = found.panes.slice(0, 2).map((each) => pane(each, known));
    const texts = found.texts.slice(0, 2).map(String);
    if (!panes.length || panes.includes(null) || !texts.length) return null;
    const frame = found.frame === null || (Number.isInteger(found.frame) && found.frame >= 0) ? found.frame : undefined;
    return { texts, panes, frame, gold: found.gold === true };
  } catch {
    return null;
  }
}

export function toHash({ texts, panes, frame, gold }) {
  return `#${encodeURIComponent(JSON.stringify({ texts, panes, frame, gold: gold || undefined }))}`;
}
