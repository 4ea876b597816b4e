// The keyboard on every page: `/` goes to the filter, j and k to the next and previous row, Enter opens it, x selects
// it, ? shows the keys.

const help = document.getElementById("help");

function isTyping(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

function rows() {
  return [...document.querySelectorAll("table.rows[data-keys] tbody tr:not([hidden], .group)")];
}

function move(step) {
  const every = rows();
  if (!every.length) return;
  const now = every.findIndex((row) => row.classList.contains("current"));
  const next = Math.min(Math.max(now + step, 0), every.length - 1);
  every[now]?.classList.remove("current");
  every[next].classList.add("current");
  every[next].scrollIntoView({ block: "nearest" });
}

function current() {
  return rows().find((row) => row.classList.contains("current"));
}

const KEYS = {
  "/": () => document.querySelector("[data-filter]")?.focus(),
  "?": () => (help.open ? help.close() : help.showModal()),
  j: () => move(1),
  k: () => move(-1),
  Enter: () => current()?.querySelector("a")?.click(),
  x: () => current()?.querySelector("input[type=checkbox]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") {
      event.preventDefault(); // a field of the type search would be emptied
      event.target.blur();
    }
    return;
  }
  const act = KEYS[event.key];
  if (!act || (event.key === "Enter" && event.target.closest("a, button, summary, input"))) return;
  if (event.key === "Enter" && !current()) return;
  event.preventDefault();
  act();
});

document.querySelector("[data-help]")?.addEventListener("click", () => help.showModal());
