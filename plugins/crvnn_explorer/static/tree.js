// The tree over its tokens. Nodes light up in the step in which they are made.

import { svg } from "./dom.js";

const TOKEN = 26, TOP = 14;

function shape(tree) {
  const tops = tree.tokens.map((_, place) => ({ token: place, height: 0 }));
  const nodes = tree.nodes.map((node) => {
    const [left, right] = [tops[node.start], tops[node.split]];
    const made = { ...node, left, right, height: 1 + Math.max(left.height, right.height) };
    tops[node.start] = made;
    return made;
  });
  return { nodes, height: nodes.length ? nodes.at(-1).height : 0 };
}

function bracketed(node, tokens) {
  const texts = [];
  const waiting = [node];
  while (waiting.length) {
    const part = waiting.pop();
    if (typeof part === "string") texts.push(part);
    else if (part.token !== undefined) texts.push(`${tokens[part.token]} `);
    else waiting.push(") ", part.right, part.left, "(");
  }
  return texts.join("").replaceAll(" )", ")").trim();
}

function describe(node, tokens) {
  const text = tokens.slice(node.start, node.end).join(" ");
  const when = node.step === null ? "joined at the end" : `made in step ${node.step}`;
  const chance = node.chance === null ? "" : `, composed by then with ${node.chance.toFixed(2)}`;
  return `${text}: ${when}${chance}`;
}

/** From a child up and over to its parent, around a corner. */
function branch(child, parent) {
  const round = Math.min(5, Math.abs(parent.x - child.x), child.y - parent.y) * Math.sign(parent.x - child.x);
  return `M${child.x},${child.y}V${parent.y + Math.abs(round)}Q${child.x},${parent.y} ${child.x + round},${parent.y}H${parent.x}`;
}

/** How many levels a tree has above its tokens. */
export function levels(tree) {
  return tree ? shape(tree).height : 0;
}

/** A picture of a tree in room for so many levels, and a function that shows it as it is in a frame. */
export function drawTree(sequence, at, differing, height) {
  const { tokens, unknown, tree } = sequence;
  const { nodes } = shape(tree);
  const level = Math.max(3, Math.min(23, 300 / Math.max(height, 1)));
  const base = TOP + level * height + 6;
  const root = svg("svg", {
    class: "picture tree", width: at.width, height: base + TOKEN + 6, viewBox: `0 0 ${at.width} ${base + TOKEN + 6}`,
    role: "img",
  });
  root.append(
    svg("title", {}, "Tree"),
    svg("desc", {}, `The tree over ${tokens.length} tokens: ${nodes.length ? bracketed(nodes.at(-1), tokens) : tokens[0]}`),
  );
  const lines = svg("g"), dots = svg("g"), leaves = svg("g");
  const place = (part) => part.token !== undefined
    ? { x: at.middles[part.token], y: base }
    : { x: part.x, y: base - level * part.height };
  const drawn = nodes.map((node) => {
    const ends = [place(node.left), place(node.right)];
    node.x = (ends[0].x + ends[1].x) / 2;
    const here = place(node);
    const group = ends.map((end) => svg("path", { class: "branch", d: branch(end, here) }));
    const dot = svg("circle", { class: "node", cx: here.x, cy: here.y, r: Math.max(1.5, Math.min(4.5, level / 3)) },
      svg("title", {}, describe(node, tokens)));
    lines.append(...group);
    dots.append(dot);
    const other = differing?.has(`${node.start}-${node.end}`);
    return { node, parts: [...group, dot], other };
  });
  tokens.forEach((token, i) => {
    leaves.append(
      svg("rect", {
        class: `token${unknown[i] ? " unknown" : ""}`, x: at.middles[i] - at.widths[i] / 2, y: base,
        width: at.widths[i], height: TOKEN, rx: 5,
      }, svg("title", {}, unknown[i] ? `${token} (unknown to the model)` : token)),
      svg("text", { class: "label", x: at.middles[i], y: base + 17 }, at.labels[i]),
    );
  });
  root.append(lines, dots, leaves);

  function show(frame, last) {
    for (const { node, parts, other } of drawn) {
      const step = node.step ?? last + 1;
      const when = step <= frame || frame >= last ? "made" : step === frame + 1 ? "now" : "later";
      for (const part of parts) {
        const kind = part.tagName === "circle" ? "node" : "branch";
        part.setAttribute("class", [kind, when, other && "other", node.step === null && "late"].filter(Boolean).join(" "));
      }
    }
  }
  return { root, show };
}
