// The page: one text, one or two models on it, and the steps of both in time with each other.

import * as api from "./api.js";
import { compare, rowOf } from "./compare.js";
import { byId, html } from "./dom.js";
import { Pane } from "./pane.js";
import { Player } from "./player.js";
import { emptyPane, fromHash, toHash } from "./state.js";
import { levels } from "./tree.js";

let offer, state, player, panes = [], expected = null, asked = 0, written = "", without = null;

function arity() {
  return offer.models.find((model) => model.name === state.panes[0].model).arity;
}

function remember() {
  written = toHash(state);
  try {
    history.replaceState(null, "", written);
  } catch {
    // Some browsers limit how often this may be done; the next change will.
  }
}

function drawTexts() {
  const count = arity();
  state.texts = Array.from({ length: count }, (_, i) => state.texts[i] ?? "");
  const fields = state.texts.map((text, i) => {
    const id = `text-${i + 1}`;
    const field = html("textarea", { id, rows: 1, spellcheck: "false", autocomplete: "off", autocapitalize: "off", maxlength: 20000 });
    field.value = text;
    field.addEventListener("input", () => {
      state.texts[i] = field.value;
      expected = null;
      fit(field);
      remember();
      panes.forEach((pane) => pane.refresh());
    });
    return [html("label", { for: id }, count === 1 ? "Text" : ["First text", "Second text"][i]), field];
  });
  byId("texts").replaceChildren(...fields.flat());
  fields.forEach(([, field]) => fit(field));
}

function fit(field) {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight + 2, 160)}px`;
}

function build() {
  player.pause();
  panes = state.panes.map((pane, i) => new Pane("AB"[i], offer, pane, {
    texts: () => state.texts,
    expected: () => expected,
    changed: () => {
      if (state.texts.length !== arity()) {
        drawTexts();
        panes.forEach((each) => each.refresh());
      }
      remember();
    },
    answered: redraw,
    jump: (frame) => player.go(frame),
  }));
  byId("panes").replaceChildren(...panes.map((pane) => pane.element));
  byId("panes").classList.toggle("two", panes.length === 2);
  const button = byId("compare");
  button.setAttribute("aria-pressed", String(panes.length === 2));
  button.textContent = panes.length === 2 ? "Back to one" : "Compare two variants";
  for (const pane of panes) {
    pane.details.open = panes.length === 1 && window.innerWidth > 900;
    pane.refresh(true);
  }
  byId("difference").hidden = true;
}

function redraw() {
  const answers = panes.map((pane) => pane.answer);
  const ready = answers.length === 2 && answers.every(Boolean) && panes.every((pane) => pane.error.hidden);
  const difference = ready ? compare(...answers) : null;
  const heights = ready ? answers[0].sequences.map((_, i) => Math.max(...answers.map((answer) => levels(answer.sequences[i]?.tree)))) : null;
  panes.forEach((pane, side) => pane.draw(difference, side, heights));
  count();
  tellDifference(difference, answers);
  if (panes.some((pane) => !pane.answer && pane.error.hidden)) { // the other is still to come
    panes.forEach((pane) => pane.show(player.atEnd ? Infinity : player.frame));
    return;
  }
  player.rescale(Math.max(...panes.map((pane) => pane.last)), difference?.parting?.frame ?? null);
}

/** How long the text is, if it could be read. */
function count() {
  const counts = (panes.find((pane) => pane.answer && pane.error.hidden)?.answer.sequences ?? []).map((sequence) => sequence.tokens.length);
  const words = counts.length ? `${counts.join(" and ")} ${counts.at(-1) === 1 ? "token" : "tokens"}, of ${offer.limit} at most.` : `Up to ${offer.limit} tokens.`;
  const none = without === state.panes[0].model;
  byId("example").disabled = none;
  byId("count").textContent = none ? `${words} The task's data is not at hand, so there are no examples: type a text.` : words;
}

function tellDifference(difference, answers) {
  const box = byId("difference");
  box.hidden = difference === null;
  if (difference === null) return;
  const words = [];
  const [a, b] = answers.map((answer) => answer.label);
  words.push(html("b", {}, a === b ? `Both say ${a}. ` : `A says ${a}, B says ${b}. `));
  const { parting } = difference;
  if (difference.sequences.some((found) => !found.comparable)) {
    words.push("They read the text as different tokens, so their steps cannot be laid side by side.");
  } else if (parting) {
    const { index, frame, place, row } = parting, sequences = answers.map((answer) => answer.sequences[index]);
    const numbers = sequences.map((sequence, side) => {
      const halted = row === "compose" && frame >= sequence.exists.length - 1;
      return `${"AB"[side]} ${halted ? "has halted" : `${row === "compose" ? "c" : "e"} ${rowOf(sequence, frame)[row][place].toFixed(2)}`}`;
    });
    const ended = frame >= Math.max(...sequences.map((sequence) => sequence.exists.length - 1));
    const which = answers[0].sequences.length > 1 ? ` of the ${["first", "second"][index]} text` : "";
    words.push(`They part ${ended ? "at the end" : `in step ${frame + 1}`}${which}, most at `, html("code", {}, sequences[0].tokens[place]),
      ` (${numbers.join(", ")}). `, html("button", { type: "button", id: "parting", onclick: () => player.go(frame) }, `Go to ${ended ? "the end" : `step ${frame + 1}`}`));
  } else if (answers.every((answer) => answer.sequences.every((sequence) => sequence.exists.length))) {
    words.push("No step differs by more than 0.05.");
  }
  const trees = difference.sequences.filter((found) => found.hasTrees);
  if (trees.length) {
    const [shared, all] = [trees.reduce((sum, found) => sum + found.shared, 0), trees.reduce((sum, found) => sum + found.spans, 0)];
    words.push(shared === all ? " The trees are the same." : ` The trees share ${shared} of ${all} nodes.`);
  }
  box.replaceChildren(html("p", {}, words));
}

async function anotherExample() {
  try {
    const found = await api.example(state.panes[0].model, asked);
    asked += 1;
    if (!found.texts) {
      without = state.panes[0].model;
      count();
      return;
    }
    state.texts = found.texts;
    expected = found.label;
    drawTexts();
    remember();
    panes.forEach((pane) => pane.refresh(true));
  } catch (error) {
    byId("count").textContent = error.message;
  }
}

function toggleCompare() {
  if (state.panes.length === 2) {
    state.panes.length = 1;
  } else {
    const other = offer.models.find((model) => model.name !== state.panes[0].model && model.arity === arity());
    const second = other ? emptyPane(other.name) : structuredClone(state.panes[0]);
    if (!other) unlike(second);
    state.panes.push(second);
  }
  build();
  remember();
}

/** Of one run alone, the second variant is one with another retriever. */
function unlike(pane) {
  const model = offer.models.find((each) => each.name === pane.model);
  const own = model.parts.retriever?.name;
  const other = own && (own.startsWith("adhoc") ? "log-space" : "adhoc");
  if (other && offer.parts.retriever.some((part) => part.name === other)) pane.parts.retriever = other;
}

const THEMES = { auto: "as the system has them", light: "light", dark: "dark" };

function theme(next) {
  const root = document.documentElement;
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  byId("theme").setAttribute("aria-label", `Colours: ${THEMES[next]}`);
  byId("theme").title = `Colours: ${THEMES[next]}`;
  byId("theme").dataset.now = next;
}

function wire() {
  byId("compare").addEventListener("click", toggleCompare);
  byId("example").addEventListener("click", anotherExample);
  byId("theme").addEventListener("click", () => {
    const names = Object.keys(THEMES);
    theme(names[(names.indexOf(byId("theme").dataset.now) + 1) % names.length]);
  });
  byId("share").addEventListener("click", async () => {
    const say = (text) => {
      byId("share").textContent = text;
      setTimeout(() => { byId("share").textContent = "Copy link"; }, 1600);
    };
    try {
      await navigator.clipboard.writeText(location.href);
      say("Copied");
    } catch {
      say("Copy it from the address bar");
    }
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && panes.forEach((pane) => pane.letGo()));
  let timer = null, width = window.innerWidth;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    if (window.innerWidth === width) return; // a phone's keyboard or address bar
    timer = setTimeout(() => { width = window.innerWidth; redraw(); }, 150);
  });
  window.addEventListener("hashchange", () => {
    if (location.hash === written) return;
    const found = fromHash(location.hash, offer.models.map((model) => model.name));
    if (found) open(found);
  });
}

function open(found, label = null) {
  state = found;
  expected = label;
  player.atEnd = state.frame === null;
  if (state.frame !== null) [player.frame, player.last] = [state.frame, Infinity];
  drawTexts();
  build();
}

async function start() {
  theme("auto");
  try {
    offer = await api.models();
  } catch (error) {
    byId("panes").replaceChildren(html("p", { class: "card error", role: "alert" }, error.message));
    return;
  }
  player = new Player((frame) => {
    panes.forEach((pane) => pane.show(frame));
    const next = player.atEnd || player.last === 0 ? null : frame;
    if (state.frame !== next && panes.some((pane) => pane.answer)) {
      state.frame = next;
      remember();
    }
  });
  wire();
  const known = offer.models.map((model) => model.name);
  const found = fromHash(location.hash, known);
  state = found ?? { texts: [""], panes: [emptyPane(known[0])], frame: null };
  if (!found) await anotherExample();
  open(state, expected);
  remember();
}

start();
