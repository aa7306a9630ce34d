// The steps: a stage on which one of them is shown large, and all of them below as a grid of cells.

import { rowOf } from "./compare.js";
import { short, svg } from "./dom.js";

const ARCS = 64, TOKEN = 26, BAR = 46, NUMBERS = 32, GAP = 10;
const TOKENS_AT = ARCS + 4, BARS_AT = TOKENS_AT + TOKEN + 6, NUMBERS_AT = BARS_AT + BAR, GRID_AT = NUMBERS_AT + NUMBERS + GAP + 12;

/** The most likely right neighbour: the first behind which half of a whole token has been passed. */
function rightOf(exists, place) {
  let passed = 0;
  for (let j = place + 1; j < exists.length; j += 1) {
    passed += exists[j];
    if (passed >= 0.5) return j;
  }
  return exists.length - 1;
}

function arc(at, from, to, offset = 0) {
  const [a, b] = [at.middles[from], at.middles[to]];
  const lift = Math.min(ARCS - 14, 14 + Math.abs(b - a) * 0.28) - offset;
  const top = TOKENS_AT - 3;
  return `M${a},${top}C${a},${top - lift * 1.3} ${b},${top - lift * 1.3} ${b},${top}`;
}

function arrow(x) {
  const top = TOKENS_AT - 2;
  return `M${x - 4.5},${top - 7}L${x},${top}L${x + 4.5},${top - 7}z`;
}

function cellPath(x, y, width, height) {
  return `M${x.toFixed(1)},${y}h${width.toFixed(1)}v${height}h${(-width).toFixed(1)}z`;
}

/** All steps. What is alike is one path: a long recursion has tens of thousands of cells. */
function gridCells(sequence, at, size, differing) {
  const grid = svg("g");
  const rows = sequence.exists.length;
  const [whole, outlined] = [[], []];
  at.middles.forEach((middle, i) => grid.append(svg("rect", {
    class: "ground", x: middle - at.widths[i] / 2, y: GRID_AT, width: at.widths[i], height: rows * size - 1, rx: 2,
  })));
  const cells = svg("g");
  for (let frame = 0; frame < rows; frame += 1) {
    const y = GRID_AT + frame * size;
    const { exists, compose } = rowOf(sequence, frame);
    grid.append(svg("text", { class: "row", x: at.gutter - at.margin, y: y + size / 2 + 3.5 }, frame < rows - 1 ? frame + 1 : "end"));
    if (frame) grid.append(svg("path", { class: "between", d: `M${at.gutter},${y}H${at.width}` }));
    exists.forEach((e, i) => {
      const [x, width] = [at.middles[i] - at.widths[i] / 2, at.widths[i]];
      const part = width * compose[i];
      const piece = (kind, from, wide) => e > 0.01 && wide > 0.3 && cells.append(svg("rect", {
        class: kind, x: from.toFixed(2), y: y + 1, width: wide.toFixed(2), height: size - 2, rx: 2, "fill-opacity": e.toFixed(3),
      }));
      if (e > 0.995 && part < 0.3) {
        whole.push(cellPath(x, y + 1, width, size - 2));
      } else {
        piece("cell", x, width - part);
        piece("leaving", x + width - part, part);
      }
      if (differing?.has(`${frame}-${i}`)) outlined.push(cellPath(x + 0.75, y + 1.75, width - 1.5, size - 3.5));
    });
  }
  grid.append(svg("path", { class: "cell", d: whole.join("") }), cells);
  if (outlined.length) grid.append(svg("path", { class: "differs", d: outlined.join(""), "data-cells": outlined.length }));
  return grid;
}

function stage(sequence, at, root, on) {
  return sequence.tokens.map((token, i) => {
    const [x, width] = [at.middles[i] - at.widths[i] / 2, at.widths[i]];
    const box = svg("rect", { class: `token${sequence.unknown[i] ? " unknown" : ""}`, x, y: TOKENS_AT, width, height: TOKEN, rx: 5 });
    const label = svg("text", { class: "label", x: at.middles[i], y: TOKENS_AT + 17 }, at.labels[i]);
    const wide = Math.min(width - 8, 30), left = at.middles[i] - wide / 2;
    const rest = svg("rect", { class: "rest", x: left, y: BARS_AT, width: wide, height: BAR });
    const going = svg("rect", { class: "going", x: left, y: BARS_AT, width: wide, height: 0 });
    const e = svg("text", { class: "number e", x: at.middles[i], y: NUMBERS_AT + 13 });
    const c = svg("text", { class: "number c", x: at.middles[i], y: NUMBERS_AT + 27 });
    const group = svg("g", { class: "spot", tabindex: i ? -1 : 0, role: "button", "aria-pressed": "false" },
      svg("rect", { class: "touch", x, y: TOKENS_AT - 2, width, height: NUMBERS_AT + NUMBERS - TOKENS_AT }),
      svg("rect", { class: "ground", x: left, y: BARS_AT, width: wide, height: BAR }),
      box, label, rest, going, e, c);
    group.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && on.point(i));
    group.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && on.point(null));
    group.addEventListener("focus", () => on.point(i));
    group.addEventListener("blur", () => on.point(null));
    group.addEventListener("click", () => on.keep(i));
    root.append(group);
    return { token, group, box, label, rest, going, e, c };
  });
}

/** A picture of the steps, and functions that show a frame of it and the neighbours of a token. */
export function drawSteps(sequence, at, differing, on) {
  const frames = sequence.exists.length;
  const size = frames > 40 ? 10 : frames > 16 ? 14 : 20;
  const height = GRID_AT + frames * size + 8;
  const root = svg("svg", { class: "picture steps", width: at.width, height, viewBox: `0 0 ${at.width} ${height}`, role: "group" });
  const title = svg("title", {}, "Steps"), about = svg("desc", {});
  const arcs = svg("g"), marks = svg("g");
  const caption = svg("text", { class: "caption", x: 8, y: 14 });
  root.append(title, about, caption, arcs);
  const spots = stage(sequence, at, root, on);
  root.append(
    svg("text", { class: "row e", x: at.gutter - at.margin, y: NUMBERS_AT + 13 }, "e"),
    svg("text", { class: "row c", x: at.gutter - at.margin, y: NUMBERS_AT + 27 }, "c"),
    svg("text", { class: "row", x: at.gutter - at.margin, y: GRID_AT - 6 }, "step"),
    gridCells(sequence, at, size, differing), marks,
  );
  const current = svg("rect", { class: "current", x: 1, width: at.width - 2, height: size, rx: 3 });
  root.append(current);
  for (let frame = 0; frame < frames; frame += 1) {
    const hit = svg("rect", { class: "hit", x: 0, y: GRID_AT + frame * size, width: at.width, height: size });
    hit.addEventListener("click", () => on.jump(frame));
    root.append(hit);
  }
  let shown = 0;

  /** All tokens are one stop of the tab key; from there the arrows lead to each, and through the steps. */
  function key(event, place) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: spots.length - 1 }[event.key];
    if (to !== undefined) spots[Math.max(0, Math.min(to, spots.length - 1))].group.focus();
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") on.jump(shown + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" || event.key === " ") on.keep(place);
    else return;
    event.preventDefault();
  }
  spots.forEach(({ group }, i) => {
    group.addEventListener("keydown", (event) => key(event, i));
    group.addEventListener("focus", () => spots.forEach((spot, j) => spot.group.setAttribute("tabindex", i === j ? 0 : -1)));
  });

  function joins(exists, compose) {
    compose.forEach((c, i) => {
      const weight = exists[i] * c;
      if (weight < 0.02 || i === compose.length - 1) return;
      const to = rightOf(exists, i);
      const opacity = (0.2 + 0.8 * weight).toFixed(3);
      arcs.append(
        svg("path", { class: "join", d: arc(at, i, to), "stroke-width": (0.8 + 2.6 * weight).toFixed(2), "stroke-opacity": opacity }),
        svg("path", { class: "head", d: arrow(at.middles[to]), "fill-opacity": opacity }),
      );
    });
  }

  function show(frame) {
    shown = Math.min(frame, frames - 1);
    const { exists, compose } = rowOf(sequence, shown);
    const words = shown < frames - 1 ? `step ${shown + 1} of ${frames - 1}` : `after ${frames - 1} steps`;
    caption.textContent = words;
    spots.forEach((spot, i) => {
      const [e, c] = [exists[i], compose[i]];
      const going = e * c, rest = e - going;
      spot.rest.style.setProperty("y", `${BARS_AT + BAR * (1 - rest)}px`);
      spot.rest.style.setProperty("height", `${BAR * rest}px`);
      spot.going.style.setProperty("y", `${BARS_AT + BAR * (1 - e)}px`);
      spot.going.style.setProperty("height", `${BAR * going}px`);
      spot.e.textContent = short(e);
      spot.c.textContent = shown < frames - 1 ? short(c) : "";
      spot.box.setAttribute("opacity", (0.25 + 0.75 * e).toFixed(3));
      spot.label.setAttribute("opacity", (0.4 + 0.6 * e).toFixed(3));
      const composed = shown < frames - 1 ? `, composed ${c.toFixed(2)}` : "";
      spot.group.setAttribute("aria-label", `Token ${i + 1}, ${spot.token}${sequence.unknown[i] ? ", unknown to the model" : ""}: exists ${e.toFixed(2)}${composed}`);
      spot.group.classList.toggle("differs", Boolean(differing?.has(`${shown}-${i}`)));
      spot.group.classList.toggle("joining", going > 0.3);
    });
    about.textContent = `Existence and composition of ${sequence.tokens.length} tokens, ${words}`;
    current.setAttribute("y", GRID_AT + shown * size);
  }

  /** The neighbours of a token instead of the joins; none for the joins again. */
  function point(place, weights = null) {
    arcs.replaceChildren();
    spots.forEach((spot, i) => spot.group.classList.toggle("pointed", i === place));
    if (place === null) {
      const { exists, compose } = rowOf(sequence, shown);
      joins(exists, compose);
      return;
    }
    for (const side of weights ? ["left", "right"] : []) {
      for (const [j, weight] of weights[side][place]) {
        arcs.append(svg("path", { class: side, d: arc(at, place, j), "stroke-width": (1 + 3 * weight).toFixed(2), "stroke-opacity": (0.25 + 0.75 * weight).toFixed(3) }));
        if (weight >= 0.04) {
          const outwards = j < place ? -1 : 1; // beside the end of the arc, not under it
          arcs.append(svg("text", {
            class: `weight ${side}`, x: at.middles[j] + outwards * 7, y: TOKENS_AT - 7, "text-anchor": outwards < 0 ? "end" : "start",
          }, short(weight)));
        }
      }
    }
  }

  /** Mark the token whose neighbours stay in sight; none for none. */
  function keep(place) {
    spots.forEach((spot, i) => spot.group.setAttribute("aria-pressed", String(i === place)));
  }
  return { root, show, point, keep };
}
