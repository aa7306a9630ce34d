// Saving a picture: every style that it has on the page is written into it, so that it stands alone.

/** What is handed down to the elements within, and what it is where nothing says otherwise. */
const INHERITED = {
  fill: "rgb(0, 0, 0)", "fill-opacity": "1", stroke: "none", "stroke-width": "1px", "stroke-opacity": "1", "stroke-dasharray": "none",
  "stroke-linecap": "butt", "stroke-linejoin": "miter", "paint-order": "normal", "font-family": "", "font-size": "", "font-weight": "",
  "text-anchor": "start",
};
const LEFT_OUT = ".hit, .touch";

/** An SVG text of a picture, on the page's background. */
export function standalone(picture) {
  picture.getAnimations({ subtree: true }).forEach((animation) => animation.finish()); // as it is about to be
  const copy = picture.cloneNode(true);
  const [before, after] = [[picture, ...picture.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  before.forEach((element, i) => {
    for (const name of ["style", "class", "tabindex", "role", "aria-label", "aria-pressed", "data-cells"]) after[i].removeAttribute(name);
    if (["title", "desc"].includes(element.tagName)) return;
    const style = getComputedStyle(element), above = element === picture ? null : getComputedStyle(element.parentNode);
    const write = (name, usual) => {
      const value = style.getPropertyValue(name);
      if (value === usual) after[i].removeAttribute(name);
      else after[i].setAttribute(name, value.replace(/^([\d.]+)px$/, "$1"));
    };
    for (const [name, initial] of Object.entries(INHERITED)) write(name, above?.getPropertyValue(name) ?? initial);
    write("opacity", "1");
    if (element.tagName === "rect") ["y", "height"].forEach((name) => write(name, null)); // those of the bars are styles
  });
  const unwanted = [...picture.querySelectorAll(LEFT_OUT)];
  before.forEach((element, i) => unwanted.includes(element) && after[i].remove());
  const box = picture.viewBox.baseVal;
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  Object.entries({ x: 0, y: 0, width: box.width, height: box.height, fill: getComputedStyle(document.body).getPropertyValue("--surface").trim() })
    .forEach(([name, value]) => ground.setAttribute(name, value));
  copy.insertBefore(ground, copy.querySelector("desc").nextSibling);
  copy.setAttribute("role", "img");
  copy.setAttribute("height", box.height);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function saveSvg(picture, name) {
  download(new Blob([standalone(picture)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** At twice the size, or as large as a canvas may be. */
export async function savePng(picture, name) {
  const { width, height } = picture.viewBox.baseVal;
  const scale = Math.min(2, 16_000 / Math.max(width, height));
  const image = new Image();
  const source = URL.createObjectURL(new Blob([standalone(picture)], { type: "image/svg+xml" }));
  try {
    image.src = source;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(width * scale);
    canvas.height = Math.ceil(height * scale);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("this browser makes no PNG of a picture this large; save it as SVG");
    download(blob, `${name}.png`);
  } finally {
    URL.revokeObjectURL(source);
  }
}
