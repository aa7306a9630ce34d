// Controls for the parts of a model and their settings, made from what the components say of themselves.

import { html } from "./dom.js";

let numbers = 0;

/**
 * How a slider runs: evenly for whole numbers and from 0 on, else by powers of ten around the usual value; always within
 * the range that the component declares for the setting.
 */
function scale(setting) {
  const usual = Number(setting.default ?? 0);
  const open = setting.open ?? [];
  if (setting.kind === "whole") {
    const low = setting.min === undefined ? Math.min(usual, 0) : setting.min + (open.includes("min") ? 1 : 0);
    const most = setting.max === undefined ? Infinity : setting.max - (open.includes("max") ? 1 : 0);
    return { low, high: Math.min(most, Math.max(20, 4 * usual)), step: setting.odd ? 2 : 1, to: (v) => v, from: Math.round };
  }
  const least = (setting.min ?? 0) + (open.includes("min") ? 0.005 : 0);
  const most = setting.max === undefined ? Infinity : setting.max - (open.includes("max") ? 0.01 : 0);
  if (usual <= 0) {
    const high = Number.isFinite(most) ? most : 0.5;
    return { low: Math.min(least, usual), high, step: 0.005, to: (v) => v, from: (v) => Number(v.toFixed(3)) };
  }
  const low = Math.max(usual / 100, setting.min ?? 0);
  return {
    low: Math.log10(low), high: Math.log10(Number.isFinite(most) ? most : 20 * usual), step: 0.01, to: (v) => Math.log10(Math.max(v, low)),
    from: (v) => Math.min(most, Math.max(low, Number((10 ** v).toPrecision(3)))),
  };
}

function numberControl(setting, value, id, change) {
  const { low, high, step, to, from } = scale(setting);
  const limits = Object.fromEntries(["min", "max"].filter((end) => setting[end] !== undefined).map((end) => [end, setting[end]]));
  const box = html("input", { type: "number", id, step: setting.kind === "whole" ? 1 : "any", value, ...limits });
  const slide = html("input", { type: "range", min: low, max: high, step, "aria-label": `${setting.name}, as a slider` });
  const place = (number) => {
    slide.value = to(number);
    slide.setAttribute("aria-valuetext", String(number)); // not its power of ten
  };
  place(value);
  slide.addEventListener("input", () => {
    box.value = from(Number(slide.value));
    slide.setAttribute("aria-valuetext", box.value);
    change(Number(box.value));
  });
  box.addEventListener("input", () => {
    if (box.value === "" || !Number.isFinite(box.valueAsNumber)) return;
    if (!box.reportValidity()) return; // the browser says what the range is
    place(box.valueAsNumber);
    change(box.valueAsNumber);
  });
  return html("span", { class: "number-control" }, slide, box);
}

function control(setting, value, id, change) {
  if (setting.kind === "flag") {
    const box = html("input", { type: "checkbox", id, onchange: () => change(box.checked) });
    box.checked = value === true;
    return box;
  }
  if (setting.kind === "choice") {
    const list = html("select", { id, onchange: () => change(list.value) },
      setting.choices.map((choice) => html("option", { value: choice }, choice)));
    list.value = value;
    return list;
  }
  if (setting.kind === "text") {
    const box = html("input", { type: "text", id, value: value ?? "", oninput: () => change(box.value) });
    return box;
  }
  return numberControl(setting, value ?? 0, id, change);
}

function settingRow(setting, value, change) {
  numbers += 1;
  const id = `setting-${numbers}`;
  return html("div", { class: "setting" },
    html("label", { for: id }, setting.name),
    control(setting, value, id, change),
    setting.text && html("p", { class: "hint" }, setting.text));
}

/** The usual value of each setting: the run's own, or the component's default where the run has another component. */
function usual(model, slot, name, setting) {
  const own = model.parts[slot];
  return own?.name === name && setting.name in own.params ? own.params[setting.name] : setting.default;
}

/** What of a pane is not as the run has it. */
export function changes(pane) {
  return Object.keys(pane.parts).length
    + Object.values(pane.settings).reduce((sum, settings) => sum + Object.keys(settings).length, 0) + (pane.hard ? 1 : 0);
}

/** Controls for a pane; `changed` is called after each change. */
export function partControls(model, parts, pane, changed) {
  const root = html("div", { class: "parts-grid" });

  function chosen(slot) {
    return pane.parts[slot] ?? model.parts[slot].name;
  }

  function set(slot, name, setting, value) {
    const settings = { ...pane.settings[slot] };
    if (value === usual(model, slot, name, setting)) delete settings[setting.name];
    else settings[setting.name] = value;
    if (Object.keys(settings).length) pane.settings[slot] = settings;
    else delete pane.settings[slot];
    changed();
  }

  function rows(slot, component) {
    return (component?.settings ?? []).map((setting) => settingRow(
      setting, pane.settings[slot]?.[setting.name] ?? usual(model, slot, component.name, setting),
      (value) => set(slot, component.name, setting, value),
    ));
  }

  function group(slot) {
    const id = `part-${numbers += 1}`;
    const offered = parts[slot];
    const list = html("select", { id, "data-slot": slot },
      offered.map((part) => html("option", { value: part.name }, part.name === model.parts[slot].name ? `${part.name} (the run's)` : part.name)));
    list.value = chosen(slot);
    const about = html("p", { class: "hint" });
    const body = html("div", {});
    const fillIn = () => {
      const component = offered.find((part) => part.name === chosen(slot));
      about.textContent = component?.summary ?? "";
      body.replaceChildren(...rows(slot, component));
    };
    list.addEventListener("change", () => {
      if (list.value === model.parts[slot].name) delete pane.parts[slot];
      else pane.parts[slot] = list.value;
      delete pane.settings[slot];
      fillIn();
      changed();
    });
    fillIn();
    return html("fieldset", { class: "part" }, html("legend", {}, slot), html("label", { class: "sr", for: id }, slot), list, about, body);
  }

  const slots = Object.keys(parts).filter((slot) => model.parts[slot]);
  root.append(...slots.map(group));
  const encoder = rows("encoder", model.encoder);
  if (encoder.length) {
    root.append(html("details", { class: "part", open: Boolean(pane.settings.encoder) }, html("summary", {}, `Encoder ${model.encoder.name}`), encoder));
  }
  if (!slots.length && !encoder.length) {
    root.append(html("p", { class: "hint" }, `The encoder '${model.encoder.name}' has nothing to change under trained weights.`));
  }
  return root;
}
