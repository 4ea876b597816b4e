// The trials of a sweep as lines over parallel axes: one for each field that differs, the last one for the score.

const { fields, score, lowest, trials } = JSON.parse(document.getElementById("sweep-data").textContent);
const HEIGHT = 300;
const TOP = 34;
const BOTTOM = 22;
const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, text) {
  const result = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) result.setAttribute(key, value);
  if (text !== undefined) result.textContent = text;
  return result;
}

/** The place of a value on an axis from 0 to 1, and its marks: numbers by size, or by their order where they differ by a
 * factor of 20; other values at even intervals. */
function axis(values) {
  const numbers = values.map(Number);
  if (values.every((value) => value !== "" && Number.isFinite(Number(value)))) {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const scale = low > 0 && high / low > 20 ? Math.log10 : (x) => x;
    const span = scale(high) - scale(low) || 1;
    const shown = (x) => Number(x.toPrecision(4)).toString();
    const distinct = [...new Set(numbers)];
    const marks = distinct.length <= 8 ? distinct : [low, high];
    return { place: (value) => (scale(Number(value)) - scale(low)) / span, marks: marks.map((x) => [x, shown(x)]) };
  }
  const names = [...new Set(values)];
  return { place: (value) => names.indexOf(value) / Math.max(1, names.length - 1), marks: names.map((name) => [name, name]) };
}

function draw(box) {
  const known = trials.map((trial, i) => ({ ...trial, i })).filter((trial) => trial.score !== null);
  if (!known.length) {
    box.textContent = "No trial has a score yet.";
    return;
  }
  const names = [...fields, score];
  const columns = names.map((_, i) => known.map((trial) => (i < fields.length ? trial.values[i] : trial.score)));
  const axes = columns.map(axis);
  const width = Math.max(box.clientWidth, 120 * names.length);
  const x = (i) => 60 + (i * (width - 130)) / Math.max(1, names.length - 1);
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": "Settings and scores of the trials" });
  [...known].reverse().forEach((trial) => {
    const at = known.indexOf(trial);
    const points = axes.map(({ place }, i) => `${x(i).toFixed(1)},${y(place(columns[i][at])).toFixed(1)}`).join(" ");
    const scores = columns.at(-1);
    const share = axes.at(-1).place(scores[at]);
    const line = shape("polyline", { points, "data-trial": trial.i, "data-good": Math.round(4 * (lowest ? 1 - share : share)) });
    line.append(shape("title", {}, `${trial.title}: ${score} ${trial.score.toPrecision(4)}`));
    svg.append(line);
  });
  axes.forEach(({ place, marks }, i) => {
    svg.append(shape("line", { x1: x(i), x2: x(i), y1: y(0), y2: y(1), class: "axis" }));
    svg.append(shape("text", { x: x(i), y: 14, "text-anchor": i === axes.length - 1 ? "end" : "middle", class: "name" }, names[i].split(".").slice(-2).join(".")));
    for (const [value, text] of marks) svg.append(shape("text", { x: x(i) + (i ? 6 : -6), y: y(place(value)) + 4, "text-anchor": i ? "start" : "end" }, text));
  });
  box.replaceChildren(svg);
}

function point(trial) {
  for (const each of document.querySelectorAll("[data-trial]")) each.classList.toggle("chosen", trial !== null && each.dataset.trial === trial);
}

const box = document.getElementById("parallel");
draw(box);
addEventListener("resize", () => draw(box));
document.addEventListener("mouseover", (event) => point(event.target.closest?.("[data-trial]")?.dataset.trial ?? null));
