// Elements. Whatever comes from outside becomes text here, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An HTML element. */
export function html(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An SVG element. */
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function byId(id) {
  return document.getElementById(id);
}

/** A probability in few signs: 1, .98, 0. */
export function short(value) {
  const text = value.toFixed(2);
  if (text === "1.00") return "1";
  return text === "0.00" ? "0" : text.replace(/^0/, "");
}

export function percent(value) {
  let digits = value > 0.0995 && value < 0.9895 ? 0 : 1;
  while (value < 1 && digits < 6 && Number((100 * value).toFixed(digits)) >= 100) digits += 1; // not all is not 100
  const text = (100 * value).toFixed(digits);
  return `${text.replace(/\.0$/, "")} %`;
}

/** A token that fits its column. */
export function clipped(token, most = 14) {
  const signs = [...token];
  return signs.length > most ? `${signs.slice(0, most - 1).join("")}…` : token;
}
