// The page: one text, one or two models on it, and the steps of both in time with each other.

import * as api from "./api.js";
import { isRight } from "./answer.js";
import { compare, rowOf, tellingFrame } from "./compare.js";
import { byId, html, short } from "./dom.js";
import { Pane } from "./pane.js";
import { Player } from "./player.js";
import { emptyPane, emptyView, fromHash, toHash } from "./state.js";
import { drawTabs } from "./tabs.js";
import { differsFromGold, levels } from "./tree.js";

const SMALL = matchMedia("(max-width: 900px)"); // as in style.css
let offer, state, player, panes = [], label = null, asked = 0, front = 0, written = "", without = null;

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
      label = null;
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
    label: () => label,
    gold: () => state.gold,
    drawGold: (wanted) => {
      state.gold = wanted;
      remember();
      redraw();
    },
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
    pane.details.open = panes.length === 1 && !SMALL.matches;
    pane.refresh(true);
  }
  byId("difference").hidden = true;
}

function redraw() {
  const answers = panes.map((pane) => pane.answer);
  const ready = answers.length === 2 && answers.every(Boolean) && panes.every((pane) => pane.error.hidden);
  const difference = ready ? compare(...answers) : null;
  tabs(); // first: what is hidden has no width to draw in
  const level = ready && !SMALL.matches; // side by side, both trees have room for the higher one
  panes.forEach((pane, side) => pane.draw(difference, side, rooms(level ? answers : answers.slice(side, side + 1))));
  count();
  tellDifference(difference, answers);
  if (panes.some((pane) => !pane.answer && pane.error.hidden)) { // the other is still to come
    panes.forEach((pane) => pane.show(player.chosen === null ? Infinity : player.chosen ?? player.frame));
    return;
  }
  const parting = difference?.parting?.frame ?? null;
  const telling = tellingFrame(answers.flatMap((answer) => answer?.sequences ?? []));
  const last = Math.max(...panes.map((pane) => pane.last));
  player.rescale(last, Math.max(telling, Math.min(parting ?? 0, last - 1)), parting);
}

/** For each sequence, how high its tree may be, and whether its gold tree is drawn: where one of the trees differs from it. */
function rooms(answers) {
  return (answers[0]?.sequences ?? []).map((_, i) => ({
    levels: Math.max(...answers.map((answer) => levels(answer.sequences[i]?.tree))),
    gold: state.gold && answers.some((answer) => differsFromGold(answer, i)),
  }));
}

/** On a small screen two variants are tabs. */
function tabs() {
  front = Math.min(front, panes.length - 1);
  panes.forEach((pane, i) => pane.element.classList.toggle("front", i === front));
  drawTabs(byId("tabs"), panes.map((pane) => ({
    letter: pane.letter, badge: pane.badge.className, name: pane.state.model,
    label: pane.answer?.label, right: pane.answer ? isRight(pane.answer, label) : null,
  })), front, (chosen) => {
    front = chosen;
    redraw();
  });
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
      return `${"AB"[side]}: ${halted ? "has halted" : `${row === "compose" ? "c" : "e"} = ${short(rowOf(sequence, frame)[row][place])}`}`;
    });
    const ended = frame >= Math.max(...sequences.map((sequence) => sequence.exists.length - 1));
    const which = answers[0].sequences.length > 1 ? ` of the ${["first", "second"][index]} text` : "";
    words.push(`They diverge ${ended ? "at the end" : `in step ${frame + 1}`}${which}, most at `, html("code", {}, sequences[0].tokens[place]),
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
    label = found.label;
    state.frame = player.chosen = undefined;
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

function open(found, known = null) {
  state = found;
  label = known;
  player.chosen = state.frame;
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
    if (state.frame !== player.chosen) {
      state.frame = player.chosen;
      remember();
    }
  });
  wire();
  byId("view").focus({ preventScroll: true }); // so that keys scroll it
  const known = offer.models.map((model) => model.name);
  const found = fromHash(location.hash, known);
  state = found ?? emptyView(known[0]);
  if (!found) await anotherExample();
  open(state, label);
  remember();
}

start();
