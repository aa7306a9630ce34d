// Where two variants part.

/** Numbers that differ by more than this are shown as different. */
export const TOLERANCE = 0.05;

/** What a sequence looks like in a frame, also after its last step. */
export function rowOf(sequence, frame) {
  const last = sequence.exists.length - 1;
  const exists = sequence.exists[Math.min(frame, last)];
  return { exists, compose: frame < last ? sequence.compose[frame] : exists.map(() => 0) };
}

function differs(one, two, frame, place) {
  const a = rowOf(one, frame), b = rowOf(two, frame);
  return Math.abs(a.exists[place] - b.exists[place]) > TOLERANCE
    || Math.abs(a.compose[place] - b.compose[place]) > TOLERANCE;
}

function spans(tree) {
  return new Set(tree ? tree.nodes.map((node) => `${node.start}-${node.end}`) : []);
}

function compareSequences(one, two) {
  const found = { comparable: false, cells: new Set(), first: null, place: null, only: [new Set(), new Set()], shared: 0 };
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
    for (let place = 0; place < one.tokens.length; place += 1) {
      if (!differs(one, two, frame, place)) continue;
      found.cells.add(`${frame}-${place}`);
      if (found.first === null) [found.first, found.place] = [frame, place];
    }
  }
  return found;
}

/** Two answers to one text: per sequence which cells and spans differ, and the first step at which they part. */
export function compare(one, two) {
  const sequences = one.sequences.map((sequence, i) => compareSequences(sequence, two.sequences[i]));
  const parting = sequences
    .map((found, index) => ({ ...found, index }))
    .filter((found) => found.first !== null)
    .sort((a, b) => a.first - b.first)[0];
  return { sequences, parting: parting ?? null, first: parting?.first ?? null };
}
