// The queue: shows changes once a second, sends forms without leaving the page, moves rows by drag, u and d.

const PERIOD = 1000;
const problem = document.getElementById("problem");
let dragged = null;
let busy = false;
let pressed = false; // a pointer is down: what it is on must stay
let late = false; // rows that were asked for at once came while a pointer held them

function content() {
  return document.getElementById("jobs");
}

function isHeld(force) {
  if (pressed || dragged !== null) return true;
  return !force && document.activeElement?.matches("input[type=number]") === true;
}

async function refresh(force) {
  if (!force && (isHeld(false) || busy || document.hidden)) return;
  busy = true;
  try {
    const answer = await fetch(location.pathname, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("jobs");
    if (!next || next.innerHTML === content().innerHTML) return;
    if (isHeld(force)) {
      late = late || force;
      return;
    }
    const focus = document.activeElement?.dataset?.focus;
    const current = content().querySelector("tr.current")?.dataset.job;
    content().replaceWith(document.adoptNode(next));
    if (current) row(current)?.classList.add("current");
    if (focus) [...content().querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === focus)?.focus();
  } catch {
    // the server restarts: the next look finds it
  } finally {
    busy = false;
  }
}

function row(job) {
  return [...content().querySelectorAll("tr[data-job]")].find((each) => each.dataset.job === job);
}

async function send(address, fields) {
  let text = "";
  try {
    const answer = await fetch(address, { method: "POST", headers: { Accept: "application/json" }, body: new URLSearchParams(fields) });
    if (!answer.ok) text = (await answer.json()).error;
  } catch {
    text = "The server does not answer.";
  }
  if (problem) {
    problem.textContent = text;
    problem.hidden = !text;
  }
  await refresh(true);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.closest("#jobs")) return;
  event.preventDefault();
  send(form.getAttribute("action"), new FormData(form));
});

function release() {
  pressed = false;
  if (!late || dragged !== null) return;
  late = false;
  refresh(true);
}

document.addEventListener("pointerdown", () => (pressed = true));
for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, release);

document.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.("#queued tbody tr") ?? null;
  if (!dragged) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.dataset.job);
  dragged.classList.add("dragged");
});

document.addEventListener("dragover", (event) => {
  const over = event.target.closest?.("#queued tbody tr");
  if (!dragged || !over) return;
  event.preventDefault();
  const box = over.getBoundingClientRect();
  const place = event.clientY < box.top + box.height / 2 ? over : over.nextElementSibling;
  if (place !== dragged && place !== dragged.nextElementSibling) over.parentElement.insertBefore(dragged, place);
});

document.addEventListener("drop", (event) => {
  if (dragged) event.preventDefault();
});

document.addEventListener("dragend", () => {
  if (!dragged) return;
  const moved = dragged;
  dragged = null;
  pressed = late = false;
  moved.classList.remove("dragged");
  const place = [...moved.parentElement.children].indexOf(moved) + 1;
  send("/queue/move", { job: moved.dataset.job, position: place });
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const step = { u: -1, d: 1 }[event.key];
  const current = content().querySelector("#queued tr.current");
  if (!step || !current) return;
  const place = [...current.parentElement.children].indexOf(current) + 1 + step;
  send("/queue/move", { job: current.dataset.job, position: Math.max(place, 1) });
});

setInterval(refresh, PERIOD);
