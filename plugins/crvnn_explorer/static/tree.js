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
  const lost = tokens.slice(node.start, node.split).join(" ");
  return `${text}: ${when}${chance}${node.conflict === null ? "" : `; conflict in step ${node.conflict}: ${lost} is lost`}`;
}

/** From a child up (in a gold tree, down) and over to its parent, around a corner. */
function branch(child, parent) {
  const round = Math.min(5, Math.abs(parent.x - child.x), Math.abs(child.y - parent.y));
  const [over, up] = [round * Math.sign(parent.x - child.x), round * Math.sign(child.y - parent.y)];
  return `M${child.x},${child.y}V${parent.y + up}Q${child.x},${parent.y} ${child.x + over},${parent.y}H${parent.x}`;
}

/** The branches and the dot of each node; `y` gives the height of a part on the page. */
function drawNodes(nodes, at, y, level, about) {
  const place = (part) => ({ x: part.token === undefined ? part.x : at.middles[part.token], y: y(part) });
  return nodes.map((node) => {
    const ends = [place(node.left), place(node.right)];
    node.x = (ends[0].x + ends[1].x) / 2;
    const here = place(node);
    return {
      node,
      branches: ends.map((end) => svg("path", { class: "branch", d: branch(end, here) })),
      dot: svg("circle", { class: "node", cx: here.x, cy: here.y, r: Math.max(1.5, Math.min(4.5, level / 3)) }, svg("title", {}, about(node))),
    };
  });
}

function spacing(height) {
  return Math.max(3, Math.min(23, 300 / Math.max(height, 1)));
}

const spanOf = (node) => `${node.start}-${node.end}`;

/** The gold tree, hanging below the tokens; nodes that the model's tree does not have are marked. */
function drawGold(gold, tree, at, top) {
  const { nodes, height } = shape(gold);
  const level = Math.min(16, spacing(height));
  const own = new Set(tree.nodes.map(spanOf));
  const drawn = drawNodes(nodes, at, (part) => top + level * (part.height ?? 0), level,
    (node) => `${tree.tokens.slice(node.start, node.end).join(" ")}: in the gold tree${own.has(spanOf(node)) ? "" : " alone"}`);
  const root = svg("g", { class: "gold" });
  for (const { node, branches, dot } of drawn) {
    for (const part of [...branches, dot]) part.classList.toggle("other", !own.has(spanOf(node)));
    root.append(...branches);
  }
  root.append(...drawn.map(({ dot }) => dot));
  return { root, height: level * height + 10 };
}

/** Whether a gold tree is known and a model's tree is another, for the sequence of this number. */
export function differsFromGold(answer, index) {
  const [tree, gold] = [answer.sequences[index]?.tree, answer.gold.trees[index]];
  if (!tree || !gold || gold.tokens.length !== tree.tokens.length) return false;
  const own = new Set(tree.nodes.map(spanOf));
  return gold.nodes.some((node) => !own.has(spanOf(node)));
}

/** How many levels a tree has above its tokens. */
export function levels(tree) {
  return tree ? shape(tree).height : 0;
}

/** A picture of a tree in room for so many levels, and a function that shows it as it is in a frame. */
export function drawTree(sequence, at, differing, height, gold = null) {
  const { tokens, unknown, tree } = sequence;
  const { nodes } = shape(tree);
  const level = spacing(height);
  const base = TOP + level * height + 6;
  const below = gold && drawGold(gold, tree, at, base + TOKEN);
  const whole = base + TOKEN + 6 + (below?.height ?? 0);
  const root = svg("svg", { class: "picture tree", width: at.width, height: whole, viewBox: `0 0 ${at.width} ${whole}`, role: "img" });
  root.append(
    svg("title", {}, "Tree"),
    svg("desc", {}, `The tree over ${tokens.length} tokens: ${nodes.length ? bracketed(nodes.at(-1), tokens) : tokens[0]}`),
  );
  const leaves = svg("g");
  const drawn = drawNodes(nodes, at, (part) => base - level * (part.height ?? 0), level, (node) => describe(node, tokens));
  tokens.forEach((token, i) => {
    leaves.append(
      svg("rect", {
        class: `token${unknown[i] ? " unknown" : ""}`, x: at.middles[i] - at.widths[i] / 2, y: base,
        width: at.widths[i], height: TOKEN, rx: 5,
      }, svg("title", {}, unknown[i] ? `${token} (unknown to the model)` : token)),
      svg("text", { class: "label", x: at.middles[i], y: base + 17 }, at.labels[i]),
    );
  });
  if (below) root.append(below.root);
  const crosses = drawn.filter(({ node }) => node.conflict !== null).map(({ dot }) => {
    const [x, y, r] = ["cx", "cy", "r"].map((name) => Number(dot.getAttribute(name)));
    return svg("path", { class: "cross", d: `M${x - r / 2},${y - r / 2}l${r},${r}m0,${-r}l${-r},${r}` });
  });
  root.append(svg("g", {}, drawn.flatMap(({ branches }) => branches)), svg("g", {}, drawn.map(({ dot }) => dot), crosses), leaves);

  function show(frame, last) {
    for (const { node, branches, dot } of drawn) {
      const step = node.step ?? last + 1;
      const when = step <= frame || frame >= last ? "made" : step === frame + 1 ? "now" : "later";
      const states = [
        when, differing?.has(spanOf(node)) && "other", node.step === null && "late", node.conflict !== null && "conflict",
      ].filter(Boolean).join(" ");
      for (const part of branches) part.setAttribute("class", `branch ${states}`);
      dot.setAttribute("class", `node ${states}`);
    }
  }
  return { root, show };
}
