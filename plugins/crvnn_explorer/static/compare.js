// Where two variants part.

/** Numbers that differ by more than this are shown as different. */
export const TOLERANCE = 0.05;

/** What a sequence looks like in a frame, also after its last step. */
export function rowOf(sequence, frame) {
  const last = sequence.exists.length - 1;
  const exists = sequence.exists[Math.min(frame, last)];
  return { exists, compose: frame < last ? sequence.compose[frame] : exists.map(() => 0) };
}

/** How far apart the two are at each place of a frame, in e or in c, whichever is more. */
function gaps(one, two, frame) {
  const a = rowOf(one, frame), b = rowOf(two, frame);
  return a.exists.map((_, place) => {
    const [exists, compose] = ["exists", "compose"].map((row) => Math.abs(a[row][place] - b[row][place]));
    return { frame, place, gap: Math.max(exists, compose), row: compose >= exists ? "compose" : "exists" };
  });
}

function spans(tree) {
  return new Set(tree ? tree.nodes.map((node) => `${node.start}-${node.end}`) : []);
}

function compareSequences(one, two) {
  const found = { comparable: false, cells: new Set(), parting: null, only: [new Set(), new Set()], shared: 0 };
  if (one.tokens.length !== two.tokens.length || one.tokens.some((token, i) => token !== two.tokens[i])) return found;
  found.comparable = true;
  const [a, b] = [spans(one.tree), spans(two.tree)];
  found.hasTrees = Boolean(one.tree && two.tree);
  if (found.hasTrees) {
    found.only = [new Set([...a].filter((span) => !b.has(span))), new Set([...b].filter((span) => !a.has(span)))];
    found.shared = a.size - found.only[0].size;
    found.spans = a.size;
  }
  if (!one.exists.length || !two.exists.length) return found;
  const frames = Math.max(one.exists.length, two.exists.length);
  for (let frame = 0; frame < frames; frame += 1) {
    const apart = gaps(one, two, frame).filter(({ gap }) => gap > TOLERANCE);
    apart.forEach(({ place }) => found.cells.add(`${frame}-${place}`));
    if (apart.length) found.parting ??= apart.reduce((widest, each) => each.gap > widest.gap ? each : widest);
  }
  return found;
}

/** Two answers to one text: per sequence which cells and spans differ, and where they part first and most. */
export function compare(one, two) {
  const sequences = one.sequences.map((sequence, i) => compareSequences(sequence, two.sequences[i]));
  const parting = sequences
    .flatMap((found, index) => found.parting ? [{ ...found.parting, index }] : [])
    .sort((a, b) => a.frame - b.frame)[0];
  return { sequences, parting: parting ?? null };
}

/**
 * The frame that tells most of some recursions: the first by whose step half of what is composed has been. It is neither
 * before the second step, when nothing is made yet, nor the end, when all is.
 */
export function tellingFrame(sequences) {
  const last = Math.max(0, ...sequences.map((sequence) => sequence.compose.length));
  const composed = Array.from({ length: last }, (_, frame) => sequences
    .flatMap(({ exists, compose }) => (compose[frame] ?? []).map((c, place) => c * exists[frame][place]))
    .reduce((sum, part) => sum + part, 0));
  const half = composed.reduce((sum, part) => sum + part, 0) / 2;
  let sum = 0;
  const frame = composed.findIndex((part) => (sum += part) >= half);
  return Math.max(0, Math.min(Math.max(frame, 1), last - 1));
}
