// One model on one text: its parts, its answer, its trees and its steps.

import * as api from "./api.js";
import { drawAnswer } from "./answer.js";
import { rowOf } from "./compare.js";
import { html } from "./dom.js";
import { savePng, saveSvg } from "./export.js";
import { columns } from "./layout.js";
import { stepKeys, treeKeys } from "./legend.js";
import { changes, partControls } from "./settings.js";
import { drawSteps } from "./steps.js";
import { differsFromGold, drawTree } from "./tree.js";

export class Pane {
  constructor(letter, offer, state, on) {
    Object.assign(this, { letter, offer, state, on, answer: null, views: [], difference: null, question: null });
    this.refresh = api.latest(() => this.fetch());
    this.build();
  }

  get model() {
    return this.offer.models.find((model) => model.name === this.state.model);
  }

  /** The frames of the longest recursion here; 0 where there are no steps. */
  get last() {
    return Math.max(0, ...(this.answer?.sequences ?? []).map((sequence) => sequence.exists.length - 1));
  }

  build() {
    const { letter, offer, state } = this;
    const id = `run-${letter}`;
    this.runs = html("select", { id }, offer.models.map((model) => html("option", { value: model.name }, model.name)));
    this.runs.value = state.model;
    this.runs.addEventListener("change", () => {
      Object.assign(state, { model: this.runs.value, parts: {}, settings: {}, hard: state.hard && this.model.hard });
      this.controls();
      this.changed();
    });
    this.hard = html("input", { type: "checkbox", id: `hard-${letter}`, onchange: () => {
      state.hard = this.hard.checked;
      this.changed();
    } });
    this.hardLabel = html("label", { class: "check", for: `hard-${letter}`, title: "Decide for real, and compose along one tree" }, this.hard, " Hard decisions");
    this.summary = html("summary", {});
    this.body = html("div", {});
    this.resetButton = html("button", { type: "button", onclick: () => {
      Object.assign(state, { parts: {}, settings: {}, hard: false });
      this.controls();
      this.changed();
    } }, "Back to the run's own");
    this.details = html("details", { class: "parts" }, this.summary, this.body, this.resetButton);
    this.verdict = html("div", { class: "said", "aria-live": "polite", "aria-atomic": "true" });
    this.chart = html("div", {});
    this.error = html("p", { class: "error", role: "alert", hidden: true });
    this.pictures = html("div", { class: "pictures" });
    this.badge = html("span", { "aria-hidden": "true" }, letter);
    this.element = html("section", { class: "card pane", id: `pane-${letter}`, "aria-label": `Model ${letter}` },
      html("div", { class: "side" },
        html("div", { class: "row head" }, this.badge, html("label", { class: "sr", for: id }, "Run"), this.runs, this.hardLabel),
        this.error, this.verdict, this.chart, this.details),
      this.pictures);
    this.controls();
  }

  controls() {
    const { model, state } = this;
    this.badge.className = `badge run-${this.offer.models.indexOf(model) % this.offer.colours}`;
    this.runs.value = state.model;
    this.hard.checked = state.hard;
    this.hardLabel.hidden = !model.hard;
    this.body.replaceChildren(partControls(model, this.offer.parts, state, () => this.changed()));
    this.mention();
  }

  mention() {
    const count = changes(this.state);
    const { model, state } = this;
    const named = ["retriever", "decision", "halting"].filter((slot) => model.parts[slot]).map((slot) => state.parts[slot] ?? model.parts[slot].name);
    this.summary.replaceChildren("Parts and settings ", html("span", { class: "muted" }, named.join(", ")),
      count ? html("span", { class: "changed" }, `${count} changed`) : "");
    this.resetButton.disabled = count === 0;
  }

  changed() {
    this.mention();
    this.on.changed();
    this.refresh();
  }

  async fetch() {
    const question = { model: this.state.model, texts: this.on.texts(), parts: this.state.parts, settings: this.state.settings, hard: this.state.hard };
    this.element.setAttribute("aria-busy", "true");
    try {
      if (question.texts.some((text) => !text.trim())) throw new Error("Type a text to see what the model makes of it.");
      const answer = await api.inspect(question);
      Object.assign(this, { answer, question: structuredClone(question), weights: new Map() });
      this.error.hidden = true;
      this.element.classList.remove("stale");
    } catch (error) {
      this.error.textContent = error.message;
      this.error.hidden = false;
      this.element.classList.add("stale");
    }
    this.element.setAttribute("aria-busy", "false");
    this.on.answered();
  }

  /** Draw everything anew: the answer has changed, or what it is compared with, or the room for it. */
  draw(difference, side, rooms) {
    const { answer } = this;
    if (!answer) return;
    const { verdict, chart } = drawAnswer(answer, this.on.label());
    const said = verdict.textContent;
    if (this.verdict.textContent !== said) this.verdict.replaceChildren(verdict);
    this.chart.replaceChildren(chart);
    const open = [...this.pictures.querySelectorAll("details")].map((each) => each.open);
    const room = Math.max(0, this.pictures.clientWidth - 4);
    const before = this.views;
    this.views = answer.sequences.map((sequence, index) => this.view(sequence, index, difference?.sequences[index], side, room, rooms[index]));
    for (const view of this.views) this.takeOver(view, before[view.index]);
    this.pictures.replaceChildren(...this.views.map((view) => view.element));
    this.pictures.querySelectorAll("details").forEach((each, i) => { each.open = open[i] ?? false; });
  }

  /** One sequence; `levels` is how high its tree may be, and `gold` whether the gold tree is drawn. */
  view(sequence, index, difference, side, room, { levels, gold }) {
    const at = columns(sequence.tokens, room);
    const element = html("figure", { class: "sequence" });
    const view = { sequence, index, element, tree: null, steps: null, pointed: null, kept: null, told: html("p", { class: "told", "aria-live": "polite" }) };
    const scroll = html("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Pictures, which may scroll sideways" });
    const unknown = [...new Set(sequence.tokens.filter((_, i) => sequence.unknown[i]))];
    if (unknown.length) element.append(html("p", { class: "note" }, "Unknown to the model: ", unknown.map((token) => html("span", { class: "sample unknown" }, token))));
    if (sequence.tree) {
      const known = this.answer.gold.trees[index], differs = differsFromGold(this.answer, index);
      view.tree = drawTree(sequence, at, difference?.only[side], levels, gold ? known : null);
      const agreement = this.answer.gold.agreement[index] && this.agreement(index, differs);
      const conflicts = sequence.conflicts && html("p", { class: "conflicts" }, sequence.conflicts);
      scroll.append(treeKeys(sequence, difference, gold, [agreement, conflicts].filter(Boolean)), view.tree.root);
    }
    if (sequence.exists.length) {
      view.steps = drawSteps(sequence, at, difference?.cells, {
        point: (place) => this.point(view, place ?? view.kept),
        keep: (place) => this.keep(view, place === view.kept ? null : place),
        jump: (frame) => this.on.jump(frame),
      });
      scroll.append(stepKeys(difference), view.steps.root);
    } else {
      const name = this.model.encoder.name;
      element.append(html("p", { class: "note" }, sequence.tree
        ? `The encoder '${name}' composes along this tree, but in no steps that could be shown.`
        : `The encoder '${name}' shows no tree and no steps: there is only its answer to look at.`));
    }
    element.append(scroll);
    if (view.steps) {
      view.body = html("tbody", {});
      element.append(view.told, html("details", { class: "numbers" }, html("summary", {}, "Numbers of this step"),
        html("table", {}, html("thead", {}, html("tr", {}, ["token", "e before", "c", "e after"].map((name) => html("th", { scope: "col" }, name)))), view.body)));
    }
    if (view.tree || view.steps) element.append(this.saving(view));
    return view;
  }

  /** How the tree agrees with the gold one, and a switch that draws the latter. */
  agreement(index, differs) {
    const words = html("p", { class: "agreement" }, differs ? "" : html("span", { class: "right" }, "✓ "), this.answer.gold.agreement[index]);
    if (differs) {
      const id = `gold-${this.letter}-${index}`;
      const box = html("input", { type: "checkbox", id, onchange: () => this.on.drawGold(box.checked) });
      box.checked = this.on.gold();
      words.append(" ", html("label", { class: "check", for: id }, box, " Draw gold tree"));
    }
    return words;
  }

  saving(view) {
    const several = this.answer.sequences.length > 1 ? `-${view.index + 1}` : "";
    const row = html("div", { class: "row saving" });
    for (const kind of ["tree", "steps"]) {
      if (!view[kind]) continue;
      const picture = view[kind].root, name = `crvnn-${kind}-${this.letter}${several}`;
      const say = (error) => { view.told.textContent = error.message; };
      row.append(html("span", { class: "muted" }, `Save the ${kind}`),
        html("button", { type: "button", "data-save": `${kind}-svg`, "aria-label": `Save the ${kind} as SVG`, onclick: () => saveSvg(picture, name) }, "SVG"),
        html("button", { type: "button", "data-save": `${kind}-png`, "aria-label": `Save the ${kind} as PNG`, onclick: () => savePng(picture, name).catch(say) }, "PNG"));
    }
    return row;
  }

  show(frame) {
    this.frame = frame;
    for (const view of this.views) {
      const last = view.sequence.exists.length - 1;
      view.tree?.show(view.steps ? Math.min(frame, last) : Infinity, view.steps ? last : 0);
      view.steps?.show(frame);
      if (!view.steps) continue;
      this.tell(view, Math.min(frame, last), last);
      this.point(view, view.pointed);
    }
  }

  tell(view, frame, last) {
    const { tokens, tree } = view.sequence;
    const made = (tree?.nodes ?? []).filter((node) => node.step === frame + 1);
    const words = made.map((node) => `${tokens.slice(node.start, node.split).join(" ")} + ${tokens.slice(node.split, node.end).join(" ")}`);
    if (frame >= last) view.told.textContent = `After ${last} ${last === 1 ? "step" : "steps"}.`;
    else view.told.textContent = `Step ${frame + 1}: ${words.length ? words.join(";  ") : "nothing has passed one half"}`;
    const { exists, compose } = rowOf(view.sequence, frame);
    view.body.replaceChildren(...tokens.map((token, i) => html("tr", {}, html("th", { scope: "row" }, token),
      [exists[i], compose[i], exists[i] * (1 - compose[i])].map((value) => html("td", {}, value.toFixed(3))))));
  }

  /** Keep a token's neighbours in sight; none to let go. */
  keep(view, place) {
    view.kept = place;
    view.steps.keep(place);
    this.point(view, place);
  }

  /** A picture drawn anew keeps what the last one kept, if it is of the same tokens. */
  takeOver(view, before) {
    if (!view.steps || (before?.kept ?? null) === null || before.sequence.tokens.join(" ") !== view.sequence.tokens.join(" ")) return;
    view.pointed = view.kept = before.kept;
    view.steps.keep(before.kept);
  }

  /** Show a token's neighbours, as the retriever weighs them before this step. */
  async point(view, place) {
    view.pointed = place;
    const frame = Math.min(this.frame, view.sequence.exists.length - 1);
    if (place === null) {
      view.steps.point(null);
      this.tell(view, frame, view.sequence.exists.length - 1);
      return;
    }
    const key = `${view.index}-${frame}`, { weights } = this;
    try {
      if (!weights.has(key)) weights.set(key, api.neighbours(this.question, view.index, frame));
      const found = await weights.get(key);
      if (view.pointed !== place || this.weights !== weights || frame !== Math.min(this.frame, view.sequence.exists.length - 1)) return;
      view.steps.point(place, found);
      const { tokens } = view.sequence;
      const listed = (side, edge) => {
        const pairs = [...found[side][place]].sort((a, b) => b[1] - a[1]);
        const rest = 1 - pairs.reduce((sum, [, weight]) => sum + weight, 0);
        const words = pairs.slice(0, 4).map(([j, weight]) => `${tokens[j]} (${weight.toFixed(2)})`);
        if (rest > 0.02) words.push(`${edge} (${rest.toFixed(2)})`);
        return words.join(", ");
      };
      view.told.textContent = `${tokens[place]}: left of it ${listed("left", "the beginning")}; right of it ${listed("right", "the end")}`;
    } catch (error) {
      weights.delete(key);
      view.steps.point(null);
      view.told.textContent = error.message;
    }
  }

  letGo() {
    for (const view of this.views) if (view.pointed !== null) this.keep(view, null);
  }
}
