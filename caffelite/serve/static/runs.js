// The table of runs. The server filters, sorts and groups; this script shows its answers without loading the page again,
// requests further rows when the reader scrolls, and requests the rows that are shown again every few seconds.

const PERIOD = 3000; // milliseconds between two requests of the shown rows
const TYPING = 60; // milliseconds without a key before the filter is sent
const FIRST = 60; // rows of a view at least
const STEP = 240; // rows of a further request
const view = document.getElementById("view");
const rows = document.getElementById("rows");
const more = document.getElementById("more");
const compare = document.getElementById("compare");
const chosen = new Set(); // the folders of the selected runs, also of those without a row
let pending = null; // the AbortController of the request whose answer replaces the rows
let growing = false; // further rows are on their way
let typing = 0; // the timer of the filter
let received = ""; // the last answer

// The address of the view that the form states, without what is empty.
function address() {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(view)) if (value) query.append(name, value);
  return `/runs?${query}`;
}

const shown = () => rows.querySelectorAll("tr[data-folder]").length;
const rowOf = (folder) => rows.querySelector(`tr[data-folder="${CSS.escape(folder)}"]`);
const isNear = () => more.getBoundingClientRect().top < 2 * innerHeight;
const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

// The page with some rows of the view: {ok, text}; null where the server cannot be reached, or the request is aborted.
async function request(first, count, signal) {
  try {
    const url = `${address()}&first=${first}&count=${count}`;
    const answer = await fetch(url, { headers: { Accept: "text/html" }, signal });
    return { ok: answer.ok, text: await answer.text() };
  } catch {
    return null;
  }
}

// Replaces the rows by the first `count` of the view.
async function show(count) {
  pending?.abort();
  const mine = (pending = new AbortController());
  const found = await request(0, count, mine.signal);
  if (pending !== mine) return;
  pending = null;
  if (found && found.text !== received) replace(found);
  if (isNear()) grow();
}

function replace(found) {
  const page = parsed(found.text);
  const mistake = document.getElementById("mistake");
  mistake.hidden = found.ok;
  mistake.textContent = found.ok ? "" : (page.querySelector(".message")?.textContent ?? "The server cannot answer.");
  received = found.text;
  if (!found.ok) return;
  const focus = document.activeElement;
  const focused = focus.closest("#rows tr[data-folder]")?.dataset.folder;
  const current = rows.querySelector("tr.current")?.dataset.folder;
  rows.replaceChildren(...page.getElementById("rows").children);
  if (current !== undefined) rowOf(current)?.classList.add("current");
  if (focused !== undefined) rowOf(focused)?.querySelector(focus.localName)?.focus({ preventScroll: true });
  document.getElementById("count").textContent = page.getElementById("count").textContent;
  document.getElementById("none").hidden = page.getElementById("none").hidden;
  applyMore(page);
  applyChosen();
}

// Appends the next rows to the table.
async function grow() {
  if (growing || pending || !more.firstElementChild) return;
  growing = true;
  const found = await request(shown(), STEP);
  growing = false;
  if (!found?.ok || pending) return;
  const page = parsed(found.text);
  rows.querySelector("table").append(...page.querySelectorAll("#rows tbody"));
  applyMore(page);
  applyChosen();
  if (isNear()) grow();
}

function applyMore(page) {
  more.replaceChildren(...page.getElementById("more").childNodes);
}

function applyChosen() {
  for (const box of rows.querySelectorAll("input[name=folder]")) box.checked = chosen.has(box.value);
  compare.disabled = chosen.size < 2;
  compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
}

function changeView() {
  clearTimeout(typing);
  history.replaceState(null, "", address());
  show(FIRST);
}

rows.addEventListener("change", (event) => {
  if (event.target.name !== "folder") return;
  if (event.target.checked) chosen.add(event.target.value);
  else chosen.delete(event.target.value);
  applyChosen();
});

// A selected run is compared even where the filter hides its row.
document.getElementById("chosen").addEventListener("formdata", (event) => {
  event.formData.delete("folder");
  for (const folder of chosen) event.formData.append("folder", folder);
});

rows.addEventListener("click", (event) => {
  const link = event.target.closest("thead a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const query = new URL(link.href).searchParams;
  for (const name of ["sort", "reverse"]) view.elements[name].value = query.get(name);
  changeView();
});

more.addEventListener("click", (event) => {
  event.preventDefault();
  grow();
});

view.addEventListener("input", (event) => {
  if (!event.target.matches("input:not([type=checkbox])")) return;
  clearTimeout(typing);
  typing = setTimeout(changeView, TYPING);
});
view.addEventListener("change", changeView);
view.addEventListener("submit", (event) => {
  event.preventDefault();
  changeView();
});

for (const box of rows.querySelectorAll("input[name=folder]:checked")) chosen.add(box.value);
applyChosen();
new IntersectionObserver((entries) => entries.at(-1).isIntersecting && grow(), { rootMargin: "100%" }).observe(more);
setInterval(() => {
  if (!document.hidden && !growing && !pending) show(Math.max(shown(), FIRST));
}, PERIOD);
