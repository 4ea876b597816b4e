// The table of runs: filters while one types, enables Compare, and reads the rows again every few seconds.

const PERIOD = 3000; // milliseconds
const filter = document.querySelector("[data-filter]");
const compare = document.getElementById("compare");
const chosen = new Set();

function applyFilter() {
  const text = filter.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("#rows tr[data-text]")) {
    row.hidden = !row.dataset.text.toLowerCase().includes(text);
  }
}

function applyChosen() {
  for (const box of document.querySelectorAll("#rows input[name=folder]")) box.checked = chosen.has(box.value);
  compare.disabled = chosen.size < 2;
  compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
}

document.getElementById("rows").addEventListener("change", (event) => {
  if (event.target.name !== "folder") return;
  if (event.target.checked) chosen.add(event.target.value);
  else chosen.delete(event.target.value);
  applyChosen();
});

filter.addEventListener("input", applyFilter);
for (const control of document.querySelectorAll("#view select, #view input[type=checkbox]")) {
  control.addEventListener("change", () => document.getElementById("view").requestSubmit());
}

let before = "";

async function refresh() {
  if (document.hidden || document.querySelector("details[open]")) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer?.ok) return;
  const text = await answer.text();
  if (text === before) return;
  before = text;
  const page = new DOMParser().parseFromString(text, "text/html");
  const current = document.querySelector("#rows tr.current")?.dataset.folder;
  const rows = document.getElementById("rows");
  rows.replaceChildren(...page.getElementById("rows").children);
  document.getElementById("count").textContent = page.getElementById("count").textContent;
  for (const row of rows.querySelectorAll("tr[data-folder]")) row.classList.toggle("current", row.dataset.folder === current);
  applyFilter();
  applyChosen();
}

for (const box of document.querySelectorAll("#rows input[name=folder]:checked")) chosen.add(box.value);
applyFilter();
applyChosen();
setInterval(refresh, PERIOD);
