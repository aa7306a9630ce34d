(() => {
  "use strict";
  // What can be pointed at says what it is, at once and on a touch too; without this script the browser's own way works.
  for (const svg of document.querySelectorAll("svg[role=img]")) {
    const title = svg.querySelector(":scope > title");
    if (title) { svg.setAttribute("aria-label", title.textContent); title.remove(); }
  }
  const tip = document.createElement("div");
  tip.id = "tip"; tip.hidden = true;
  document.body.append(tip);
  const said = (target) => {
    for (let at = target; at instanceof SVGElement; at = at.parentElement) {
      const title = at.querySelector(":scope > title");
      if (title) { at.dataset.tip = title.textContent; title.remove(); }
      if (at.dataset.tip) return at.dataset.tip;
    }
    return "";
  };
  const move = (event) => {
    const text = said(event.target);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4))}px`;
    tip.style.top = `${event.clientY > height + 24 ? event.clientY - height - 12 : event.clientY + 18}px`;
  };
  for (const name of ["pointermove", "pointerdown"]) document.addEventListener(name, move);
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  // Only what can be scrolled is worth a stop of the tab key.
  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  });
  for (const each of document.querySelectorAll(".scroll")) watcher.observe(each);
  // On paper nothing can be opened.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
})();
