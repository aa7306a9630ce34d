// Playing the steps: one frame for each, and one for the end.

import { byId } from "./dom.js";

const PACE = 900; // milliseconds

export class Player {
  constructor(shown) {
    // chosen: as the frame of a view
    Object.assign(this, { shown, last: 0, frame: 0, chosen: undefined, timer: null });
    this.scrub = byId("scrub");
    byId("first").addEventListener("click", () => this.go(0));
    byId("back").addEventListener("click", () => this.go(this.frame - 1));
    byId("next").addEventListener("click", () => this.go(this.frame + 1));
    byId("last").addEventListener("click", () => this.go(this.last));
    byId("play").addEventListener("click", () => this.toggle());
    this.scrub.addEventListener("input", () => this.go(Number(this.scrub.value)));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** There are other steps now. Whoever was at the end stays there; where nobody has chosen, the telling step is shown. */
  rescale(last, telling, difference) {
    this.last = last;
    this.scrub.max = String(last);
    byId("player").classList.toggle("empty", last === 0);
    for (const id of ["first", "back", "play", "next", "last", "scrub"]) byId(id).disabled = last === 0;
    const tick = byId("tick");
    tick.hidden = difference === null || last === 0;
    if (!tick.hidden) tick.style.setProperty("--at", String(difference / last));
    if (last === 0) this.pause();
    this.show(this.chosen === undefined ? telling : Math.min(this.chosen ?? last, last));
  }

  go(frame) {
    this.pause();
    this.choose(frame);
  }

  choose(frame) {
    this.chosen = frame >= this.last ? null : Math.max(0, frame);
    this.show(this.chosen ?? this.last);
  }

  show(frame) {
    this.frame = frame;
    this.scrub.value = String(frame);
    const words = this.last === 0 ? "no steps" : frame < this.last ? `step ${frame + 1} of ${this.last}` : "the end";
    byId("where").textContent = words;
    this.scrub.setAttribute("aria-valuetext", words);
    this.shown(frame);
  }

  toggle() {
    if (this.timer !== null) {
      this.pause();
      return;
    }
    this.choose(this.frame >= this.last || this.chosen === undefined ? 0 : this.frame);
    this.timer = setInterval(() => {
      this.choose(this.frame + 1);
      if (this.frame >= this.last) this.pause();
    }, PACE);
    this.mark(true);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.mark(false);
  }

  mark(playing) {
    const button = byId("play");
    button.classList.toggle("playing", playing);
    button.setAttribute("aria-label", playing ? "Pause" : "Play");
  }

  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || this.last === 0) return;
    const tag = event.target.tagName;
    if (["INPUT", "TEXTAREA", "SELECT"].includes(tag)) return;
    const moves = { ArrowLeft: this.frame - 1, ArrowRight: this.frame + 1, Home: 0, End: this.last };
    if (event.key === " " && !["BUTTON", "SUMMARY", "A"].includes(tag)) this.toggle();
    else if (event.key in moves && !event.target.closest(".scroll:focus")) this.go(moves[event.key]);
    else return;
    event.preventDefault();
  }
}
