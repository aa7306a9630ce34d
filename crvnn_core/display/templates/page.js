(() => {
  "use strict";
  // Show <title> texts as tooltips at once, and on touch; without this script the browser shows them after a while.
  for (const svg of document.querySelectorAll("svg[role=img]")) {
    const title = svg.querySelector(":scope > title");
    if (title) { svg.setAttribute("aria-label", title.textContent); title.remove(); }
  }
  const tip = document.createElement("div");
  tip.id = "tip"; tip.hidden = true;
  document.body.append(tip);
  const tooltip = (target) => {
    for (let at = target; at instanceof SVGElement; at = at.parentElement) {
      const title = at.querySelector(":scope > title");
      if (title) { at.dataset.tip = title.textContent; title.remove(); }
      if (at.dataset.tip) return at.dataset.tip;
    }
    return "";
  };
  const move = (event) => {
    const text = tooltip(event.target);
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
  // Only elements that scroll are stops of the tab key.
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  });
  for (const each of document.querySelectorAll(".scroll")) observer.observe(each);
  // On a small screen the models' answers to an input are tabs: the style sheet shows one of them.
  const all = [...document.querySelectorAll(".columns")].filter((each) => each.children.length > 1);
  const choose = (front) => all.forEach((columns) => {
    [...columns.children].forEach((column, i) => column.classList.toggle("behind", i !== front));
    [...columns.previousElementSibling.children].forEach((tab, i) => tab.setAttribute("aria-selected", String(i === front)));
  });
  for (const columns of all) {
    const tabs = document.createElement("div");
    tabs.className = "tabs"; tabs.setAttribute("role", "tablist"); tabs.setAttribute("aria-label", "Models");
    [...columns.children].forEach((column, i) => {
      const tab = document.createElement("button");
      tab.type = "button"; tab.setAttribute("role", "tab");
      tab.append(column.querySelector(".name").cloneNode(true));
      const verdict = column.querySelector(".prediction .correct, .prediction .wrong")?.cloneNode();
      if (verdict) { verdict.textContent = verdict.className === "correct" ? "✓" : "✗"; verdict.setAttribute("aria-label", verdict.className); tab.append(verdict); }
      tab.addEventListener("click", () => {
        const before = tabs.getBoundingClientRect().top;
        choose(i);
        scrollBy({ top: tabs.getBoundingClientRect().top - before, behavior: "instant" }); // others above may have changed
      });
      tabs.append(tab);
    });
    columns.before(tabs);
  }
  choose(0);
  // Unfold everything for printing.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
})();
