// The editor of a solver and its net: checks as one types, shows what is wrong at its line, and what a run would do.

const DELAY = 350; // ms after the last key
const form = document.getElementById("edit");
const start = document.getElementById("start");
const verdict = document.getElementById("verdict");
const problem = document.getElementById("problem");
const AREAS = { solver: document.getElementById("solver_text"), net: document.getElementById("net_text") };
let timer = 0;
let asked = 0;

function node(tag, fields = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(fields)) {
    if (key === "text") made.textContent = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function body() {
  return new URLSearchParams(new FormData(form));
}

async function post(address) {
  const answer = await fetch(address, { method: "POST", headers: { Accept: "application/json" }, body: body() });
  return [answer.ok, await answer.json()];
}

async function check() {
  const mine = ++asked;
  try {
    const [ok, found] = await post("/new/check");
    if (mine !== asked) return;
    problem.hidden = ok;
    problem.textContent = ok ? "" : found.error;
    if (ok) show(found);
    else block("the check failed");
  } catch {
    if (mine === asked) block("the server does not answer");
  }
}

function block(text) {
  start.disabled = true;
  verdict.textContent = text;
  verdict.className = "message";
}

function show(found) {
  const mistakes = found.findings.filter((each) => each.kind === "mistake").length;
  start.disabled = !found.ok;
  start.textContent = found.jobs > 1 ? `Start ${found.jobs} runs` : "Start";
  verdict.textContent = mistakes ? `${mistakes} ${mistakes > 1 ? "mistakes" : "mistake"}` : "no mistakes";
  verdict.className = mistakes ? "message" : "good";
  document.getElementById("command").textContent = found.command;
  document.getElementById("findings").replaceChildren(...found.findings.map(finding));
  for (const [file, area] of Object.entries(AREAS)) gutter(file, area, found.findings);
  document.getElementById("forecast").hidden = !found.ok || !found.picture;
  if (found.ok && found.picture) forecast(found);
}

function finding(each) {
  const place = each.line ? `${each.file}:${each.line}:${each.column}` : each.file;
  const details = ["expected", "found"].filter((key) => each[key]).map((key) => `${key} ${each[key]}`).join(", ");
  const row = node("li", { class: `finding ${each.kind}`, "data-file": each.file, "data-line": each.line, "data-column": each.column });
  const head = node("button", { type: "button", class: "link mono", text: place });
  head.addEventListener("click", () => go(each));
  row.append(head, " ", node("b", { text: each.kind }), " ", node("span", { class: "what", text: each.message }));
  if (details) row.append(" ", node("span", { class: "muted", text: details }));
  if (each.remedy) row.append(" ", node("span", { class: "remedy", text: each.remedy }));
  return row;
}

function go(each) {
  const area = AREAS[each.file];
  if (!area || !each.line) return;
  const lines = area.value.split("\n");
  const from = lines.slice(0, each.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + Math.max(each.column - 1, 0);
  const word = /^[\w.+-]+/.exec(area.value.slice(from))?.[0].length ?? 1;
  area.focus();
  area.setSelectionRange(from, from + word);
  area.scrollTop = Math.max(0, (each.line - 6) * (area.scrollHeight / lines.length));
}

function gutter(file, area, findings) {
  const kinds = new Map();
  for (const each of findings) if (each.file === file && each.line && kinds.get(each.line) !== "mistake") kinds.set(each.line, each.kind);
  const count = area.value.split("\n").length;
  const lines = [];
  for (let line = 1; line <= count; line += 1) lines.push(node("span", { class: kinds.get(line) ?? "", text: `${line}\n` }));
  const box = document.getElementById(`${area.id}_gutter`);
  box.replaceChildren(...lines);
  box.scrollTop = area.scrollTop;
}

function bytes(count) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) if (count >= size) return `${(count / size).toPrecision(3)} ${unit}`;
  return `${count} B`;
}

function time(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toPrecision(2)} h` : `${(seconds / 86400).toPrecision(2)} days`;
}

function forecast(found) {
  const { totals, schedule } = found;
  const facts = [
    ["parameters", totals.parameters.toLocaleString("en")],
    ["multiply-adds", `${totals.multiply_adds.toLocaleString("en")} a sample, forward`],
    ["memory", `${bytes(totals.memory)} for a batch of ${totals.batch}`],
  ];
  if (schedule.iterations) {
    const epochs = schedule.epochs ? `, ${Number(schedule.epochs.toPrecision(4))} epochs` : "";
    facts.push(["length", `${schedule.iterations.toLocaleString("en")} iterations${epochs}${found.jobs > 1 ? `, ${found.jobs} runs` : ""}`]);
    facts.push(["tests, snapshots", `${schedule.tests}, ${schedule.snapshots}`]);
    facts.push(["time on this CPU", `about ${time(schedule.seconds)}, within a factor of two or three`]);
  }
  document.getElementById("facts").replaceChildren(...facts.flatMap(([key, value]) => [node("dt", { text: key }), node("dd", { text: value })]));
  document.getElementById("curve").replaceChildren(curve(schedule.curve ?? []));
  const picture = node("img", { alt: "The layers of the net", src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(found.picture)}` });
  document.getElementById("picture").replaceChildren(picture);
  document.getElementById("layers").replaceChildren(
    ...found.layers.map((each) =>
      node("tr", {}, node("td", { text: each.name }), node("td", { text: each.type }), node("td", { text: each.shape.map((top) => top.join("×")).join(", ") }), node("td", { class: "number", text: each.parameters.toLocaleString("en") })),
    ),
  );
}

function curve(points) {
  const [width, height, left, bottom] = [560, 150, 60, 22];
  const space = "http://www.w3.org/2000/svg";
  const made = (tag, fields, text) => {
    const found = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(fields)) found.setAttribute(key, value);
    if (text) found.textContent = text;
    return found;
  };
  const svg = made("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "learning rate by iteration", class: "curve" });
  if (points.length < 2) return svg;
  const last = points.at(-1)[0] || 1;
  const top = Math.max(...points.map((point) => point[1])) || 1;
  const x = (iteration) => left + (iteration / last) * (width - left - 8);
  const y = (rate) => height - bottom - (rate / top) * (height - bottom - 10);
  svg.append(made("line", { x1: left, x2: width - 8, y1: y(0), y2: y(0), class: "axis" }));
  svg.append(made("polyline", { points: points.map(([i, rate]) => `${x(i).toFixed(1)},${y(rate).toFixed(1)}`).join(" "), class: "line" }));
  svg.append(made("text", { x: left - 6, y: y(top) + 4, "text-anchor": "end" }, String(Number(top.toPrecision(3)))));
  svg.append(made("text", { x: left - 6, y: y(0) + 4, "text-anchor": "end" }, "0"));
  svg.append(made("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, `iteration ${(last + 1).toLocaleString("en")}`));
  return svg;
}

for (const [file, area] of Object.entries(AREAS)) {
  area.addEventListener("scroll", () => (document.getElementById(`${area.id}_gutter`).scrollTop = area.scrollTop));
  gutter(file, area, []);
}
form.addEventListener("input", () => {
  start.disabled = true;
  clearTimeout(timer);
  timer = setTimeout(check, DELAY);
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  start.disabled = true;
  const [ok, found] = await post("/new/start").catch(() => [false, { error: "The server does not answer." }]);
  problem.hidden = ok;
  problem.textContent = ok ? "" : found.error;
  if (ok) location.assign(found.job.is_run ? `/run?folder=${encodeURIComponent(found.job.folder)}` : "/queue");
});
check();
