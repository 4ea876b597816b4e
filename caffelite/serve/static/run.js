// The page of one run: live curves, state, log; the net and its layers.

import { activations } from "./activations.js";
import { Chart, Series, follow, loaded, valueOf } from "./charts.js";
import "./copy.js";
import { Predictions } from "./predictions.js";

const LONGEST_LOG = 400000; // characters
let script = JSON.parse(document.getElementById("run-data").textContent);
const query = `folder=${encodeURIComponent(script.folder)}`;
let shown = null; // the state that the page shows
const predictions = new Predictions(document.getElementById("predictions"), script.folder);
/** Once there is a net for single images. */
const predict = () => script.best && predictions.update();
const byId = (id) => document.getElementById(id);

function showState(state) {
  const badge = byId("state");
  badge.textContent = state.stopping ? "stopping" : state.label;
  [badge.dataset.state, badge.dataset.label] = [state.state, state.label];
  byId("reason").textContent = state.reason;
  if (shown && state.state !== shown) refresh();
  shown = state.state;
  if (state.iteration !== null) showIteration(state.iteration);
  for (const form of document.querySelectorAll("[data-action]")) {
    form.hidden = !state.actions.includes(form.dataset.action);
  }
  byId("waits").hidden = state.state !== "queued";
  const usage = state.usage;
  const parts = usage
    ? [
        usage.cpu === null ? "" : `${usage.cpu.toFixed(1)} CPUs`,
        bytes(usage.memory),
        usage.gpu_memory === null ? "" : `${bytes(usage.gpu_memory)} on GPU`,
      ]
    : [];
  const sizes = Object.entries(state.sizes);
  for (const [name, size] of sizes) if (fileSize(name)) fileSize(name).textContent = bytes(size);
  if (sizes.some(([name]) => !fileSize(name))) refresh(); // a file is new
  byId("usage").textContent = parts.filter(Boolean).map((part) => ` · ${part}`).join("");
}

// What the page says of the run's session and files, again: after its start, its end, a snapshot.
async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  byId("result").hidden = page.getElementById("result").hidden;
  for (const id of ["length", "about", "files", "result"]) byId(id).replaceChildren(...page.getElementById(id).childNodes);
  byId("progress").max = page.getElementById("progress").max;
  const before = script.best;
  script = JSON.parse(page.getElementById("run-data").textContent);
  if (!before) predict();
  if (!byId("net").childElementCount) showNet("TRAIN");
}

const fileSize = (name) => document.querySelector(`[data-file="${CSS.escape(name)}"]`);

/** As the server writes bytes. */
function bytes(count) {
  const unit = Math.min(3, Math.floor(Math.log2(Math.max(count, 1)) / 10));
  return unit ? `${Number((count / 1024 ** unit).toPrecision(3))} ${["KiB", "MiB", "GiB"][unit - 1]}` : `${count} B`;
}

/** As the server writes seconds. */
function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)}s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  const two = (number) => String(number).padStart(2, "0");
  if (minutes < 60) return `${minutes}m${two(Math.round(seconds) % 60)}s`;
  return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
}

/** The time so far and the time left, at the pace between the first row and the last: the first iteration compiles. */
function showTime(series) {
  if (series.state.state !== "running") {
    byId("left").textContent = "";
    return;
  }
  const last = series.rows.reduce((found, row) => (row.seconds > (found?.seconds ?? 0) ? row : found), null);
  if (!last?.iteration || byId("progress").max < 2) return;
  const first = series.rows.find((row) => row.seconds > 0 && row.iteration < last.iteration) ?? { seconds: 0, iteration: 0 };
  const pace = (last.seconds - first.seconds) / (last.iteration - first.iteration);
  const left = Math.max(0, byId("progress").max - series.count) * pace;
  byId("left").textContent = ` · ${duration(left)} left`;
  byId("time").textContent = duration(last.seconds + Math.max(0, series.count - last.iteration) * pace);
}

function showIteration(iteration) {
  byId("progress").value = iteration;
  byId("iteration").textContent = iteration.toLocaleString("en");
}

function showLog(text) {
  const log = byId("log-text");
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const whole = log.textContent + text;
  log.textContent = whole.length > LONGEST_LOG ? whole.slice(-LONGEST_LOG / 2) : whole;
  if (atEnd) log.scrollTop = log.scrollHeight;
}

/** A score in four digits; empty for null, which is no number or infinite. */
const number = (value) => (value === null ? "" : Number(value.toPrecision(4)).toString());

function showScores(series) {
  const found = new Map();
  for (const row of series.rows) {
    if (row.phase === "train") continue;
    const mark = row.phase === "test" ? "" : ` (${row.phase.replace("test", "test ")})`;
    for (const [name, value] of Object.entries(row)) {
      if (["iteration", "seconds", "phase", "smoothed_loss", "rate"].includes(name)) continue;
      const before = found.get(name + mark);
      const least = /loss|error/i.test(name);
      const known = [before?.[1], value].filter(Number.isFinite);
      const best = known.length ? (least ? Math.min : Math.max)(...known) : null;
      found.set(name + mark, [value, best]);
    }
  }
  const line = ([name, values]) => {
    const row = document.createElement("tr");
    row.append(element("td", name, "wrap"));
    row.append(...values.map((value) => element("td", number(value), "number")));
    return row;
  };
  const scores = [];
  const classes = [];
  for (const [name, values] of found) {
    const several = valueOf(name);
    if (several) classes.push([script.labels[several.index] ?? name, values]);
    else scores.push([name, values]);
  }
  classes.sort((a, b) => (a[1][0] ?? Infinity) - (b[1][0] ?? Infinity));
  if (found.size) byId("scores").replaceChildren(...scores.map(line));
  byId("class-scores").hidden = !classes.length;
  byId("classes").replaceChildren(...classes.map(line));
}

async function start() {
  const log = byId("log-text");
  log.scrollTop = log.scrollHeight;
  const series = new Series(script.folder, script.name);
  series.labels = script.labels;
  const chart = new Chart(byId("chart"), [series]);
  await loaded(series);
  byId("axis").querySelector("[value=epoch]").disabled = !series.epoch;
  const parts = series.position.split("-");
  if (parts.length === 6) series.position = [...parts.slice(0, 3), script.log_end, ...parts.slice(4)].join("-");
  window.caffelite = { series, chart };
  chart.draw();
  showState(series.state);
  showTime(series);
  predict();
  follow([series], {
    records: (update) => {
      if (update.log) showLog(update.log);
      if (!script.net || update.log.includes("Snapshotting")) refresh();
      if (update.losses.length) showIteration(series.count);
      showTime(series);
      if (update.rows.length) showScores(series);
      if (update.rows.some((row) => row.phase !== "train")) predict();
      chart.draw();
    },
    state: (state) => {
      const changed = state.state !== series.state.state;
      series.state = state;
      showState(state);
      showTime(series);
      if (changed) chart.draw();
    },
  });
}

async function showNet(phase) {
  const place = byId("net");
  if (!script.net) {
    place.textContent = "The run has not begun.";
    return;
  }
  const answer = await fetch(`/run/net.svg?${query}&phase=${phase}`).catch(() => new Response("{}", { status: 503 }));
  if (!answer.ok) {
    place.textContent = (await answer.json().catch(() => ({}))).error ?? "The net cannot be drawn.";
    return;
  }
  const svg = new DOMParser().parseFromString(await answer.text(), "image/svg+xml").documentElement;
  svg.setAttribute("role", "group");
  const seen = new Set();
  for (const box of svg.querySelectorAll("[data-layer]")) {
    const name = box.dataset.layer;
    box.addEventListener("click", () => showLayer(name, phase));
    if (seen.has(name)) continue;
    seen.add(name);
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "button");
    box.setAttribute("aria-label", `Layer ${name}`);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        showLayer(name, phase);
      }
    });
  }
  place.replaceChildren(document.adoptNode(svg));
}

function element(kind, text, name) {
  const found = document.createElement(kind);
  if (text !== undefined) found.textContent = text;
  if (name) found.className = name;
  return found;
}

function times(shape) {
  return shape.join("×") || "1";
}

async function showLayer(name, phase) {
  const place = byId("layer");
  place.hidden = false;
  const where = `${query}&phase=${phase}&layer=${encodeURIComponent(name)}`;
  const answer = await fetch(`/run/layer.json?${where}`);
  const found = await answer.json();
  const parts = [element("h2", name)];
  if (!answer.ok) {
    place.replaceChildren(...parts, element("p", found.error, "message"));
    return;
  }
  const facts = element("dl", undefined, "facts");
  const fact = (label, text) => facts.append(element("dt", label), element("dd", text));
  fact("type", found.layer.type);
  for (const value of found.bottoms) fact("bottom", `${value.name}  ${times(value.shape)}`);
  for (const value of found.tops) fact("top", `${value.name}  ${times(value.shape)}`);
  if (found.layer.parameters) fact("parameters", found.layer.parameters.toLocaleString("en"));
  if (found.layer.multiply_adds) fact("multiply-adds", `${found.layer.multiply_adds.toLocaleString("en")} a sample`);
  if (found.layer.field) fact("receptive field", found.layer.field);
  parts.push(facts);
  if (found.parameters.length) {
    const table = element("table", undefined, "rows");
    const head = element("tr");
    head.append(...["blob", "shape", "mean", "std", "min", "max"].map((text) => element("th", text)));
    const body = element("tbody");
    found.parameters.forEach((blob, i) => {
      const row = element("tr");
      const numbers = [blob.mean, blob.std, blob.min, blob.max].map((x) => (x === null ? "" : x.toPrecision(3)));
      row.append(...[String(i), times(blob.shape), ...numbers].map((text) => element("td", text)));
      body.append(row);
    });
    const top = element("thead");
    top.append(head);
    table.append(top, body);
    const scroll = element("div", undefined, "scroll flat");
    scroll.append(table);
    parts.push(element("h3", `In ${found.snapshot}`), scroll);
  } else if (found.layer.parameters) parts.push(element("p", "No snapshot yet.", "muted"));
  for (const [kind, title] of [["filters", "Filters"], ["histogram", "Weights by iteration"]]) {
    if (!found.pictures[kind]) continue;
    const picture = element("img", undefined, "plate");
    picture.src = `/run/${kind}.png?${where}`;
    picture.alt = `${title} of ${name}`;
    parts.push(element("h3", title), picture);
  }
  if (found.bottoms.length) parts.push(activations(script.folder, name)); // else it is the data
  place.replaceChildren(...parts);
  for (const box of document.querySelectorAll("#net [data-layer]")) {
    box.classList.toggle("chosen", box.dataset.layer === name);
  }
}

for (const button of document.querySelectorAll("[data-phase]")) {
  button.addEventListener("click", () => {
    for (const each of document.querySelectorAll("[data-phase]")) each.setAttribute("aria-pressed", each === button);
    showNet(button.dataset.phase);
  });
}

start(); // modules run after Plotly's deferred script
showNet("TRAIN");
