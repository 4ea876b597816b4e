// The boxes of a net that detects objects: drawn over the image, and as a table. The colors of one that classifies pixels.

const SVG = "http://www.w3.org/2000/svg";
const LETTERS = 13; // pixels of the screen
const COLORS = 8;

function element(kind, text, className) {
  const result = document.createElement(kind);
  if (text !== undefined) result.textContent = text;
  if (className) result.className = className;
  return result;
}

function drawn(kind, values = {}) {
  const result = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(values)) result.setAttribute(name, value);
  return result;
}

/** Shows the answer of /try/classify: the image with boxes, the best on top, and a table with a row for each. */
export function showBoxes(container, result) {
  const picture = element("div", undefined, "shot");
  const image = element("img");
  [image.src, image.alt] = [result.seen, "The image with its boxes"];
  const svg = drawn("svg", { viewBox: `0 0 ${result.width} ${result.height}`, "aria-hidden": "true" });
  picture.append(image, svg);
  const body = element("tbody");
  const marks = result.detections.map((one) => mark(one));
  svg.append(...marks.toReversed());
  result.detections.forEach((one, i) => body.append(row(one, marks[i])));
  container.replaceChildren(picture);
  if (marks.length) container.append(table(body));
  container.hidden = false;
  const fit = () => sizeLetters(svg, result);
  new ResizeObserver(fit).observe(svg);
  fit();
}

/** Shows the image of an answer, colored by the classes of its pixels. */
export function showColored(container, result) {
  const picture = element("div", undefined, "shot");
  const image = element("img");
  [image.src, image.alt] = [result.seen, "The image, colored by the classes of its pixels"];
  picture.append(image);
  container.replaceChildren(picture);
  container.hidden = false;
}

function mark(one) {
  const [left, top, right, bottom] = one.box.map((value) => value ?? 0);
  const group = drawn("g", { "data-series": one.class % COLORS });
  const width = Math.max(0, right - left);
  group.append(drawn("rect", { x: left, y: top, width, height: Math.max(0, bottom - top) }));
  const text = drawn("text", { x: left, y: top, "data-top": top });
  text.textContent = `${one.label} ${score(one)}`;
  group.append(text);
  return group;
}

function score(one) {
  return one.score === null ? "" : one.score.toFixed(2);
}

/** Letters keep their size on the screen, and stay within the image. */
function sizeLetters(svg, result) {
  const box = svg.getBoundingClientRect();
  if (!box.width || !box.height) return;
  const size = LETTERS * Math.max(result.width / box.width, result.height / box.height);
  svg.setAttribute("font-size", size);
  for (const text of svg.querySelectorAll("text")) {
    const top = Number(text.dataset.top);
    text.setAttribute("y", top > 1.2 * size ? top - 0.3 * size : top + 1.1 * size);
    text.setAttribute("dx", 0.2 * size);
  }
}

function row(one, group) {
  const line = element("tr");
  line.append(element("td", one.label), element("td", score(one), "number"));
  for (const corner of one.box) line.append(element("td", corner === null ? "" : corner.toFixed(1), "number"));
  for (const [event, chosen] of [["pointerenter", true], ["pointerleave", false]]) {
    for (const each of [line, group]) {
      each.addEventListener(event, () => {
        line.classList.toggle("chosen", chosen);
        group.classList.toggle("chosen", chosen);
      });
    }
  }
  return line;
}

function table(body) {
  const result = element("table", undefined, "rows");
  const head = element("thead");
  const names = element("tr");
  for (const name of ["label", "score", "xmin", "ymin", "xmax", "ymax"]) {
    names.append(element("th", name, name === "label" ? "" : "number"));
  }
  head.append(names);
  result.append(head, body);
  const scroll = element("div", undefined, "scroll flat");
  scroll.append(result);
  return scroll;
}
