// The form of a new run: shows the fields that the choice of data and net needs, and the command that does the same.

import { allowed, free } from "./names.js";

const form = document.getElementById("new");
const problem = document.getElementById("problem");
const name = document.getElementById("name");
const taken = JSON.parse(form.dataset.taken);
let named = false;

function data() {
  return form.elements.data.value;
}

function quote(text) {
  return /^[\w./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function command() {
  const words = [];
  const kind = data();
  const source = kind === "database" ? form.querySelector("#database").value : form.querySelector("#source").value;
  const made = ["digits", "mnist", "cifar10"].includes(kind);
  if (made) words.push(`caffelite dataset ${kind}${source ? ` --from ${quote(source)}` : ""} &&`);
  words.push("caffelite new", quote(name.value || "NAME"), quote(made ? `${kind}_train_lmdb` : source || "DATA"));
  const net = form.elements.net.value;
  if (net.startsWith("run:")) words.push("-net", quote(`${net.slice(4)}/net.prototxt`), "-weights MODEL");
  else if (net === "pasted") words.push("-net", quote(`${name.value}_net.prototxt`));
  else if (net) words.push("-net", net);
  for (const option of ["size", "batch", "test"]) {
    const field = form.elements[option];
    if (field.value && !field.disabled) words.push(`-${option}`, quote(field.value));
  }
  if (kind === "images" && form.elements.skip.checked) words.push("-skip");
  document.getElementById("command").textContent = words.join(" ");
}

function show() {
  for (const field of form.querySelectorAll("[data-for]")) {
    const wanted = field.dataset.for.split(" ").includes(data());
    field.hidden = !wanted;
    for (const input of field.querySelectorAll("input, select")) input.disabled = !wanted;
  }
  const net = form.elements.net.value;
  for (const field of form.querySelectorAll("[data-net]")) {
    field.hidden = !net.startsWith(field.dataset.net);
  }
  const kind = data();
  form.querySelector("#source").required = kind === "images";
  if (!named) {
    const source = kind === "images" ? form.querySelector("#source").value : form.querySelector("#database").value;
    const base = kind === "images" || kind === "database" ? source.split("/").pop().replace(/_train_lmdb$/, "") : kind;
    name.value = base ? free(allowed(base), taken) : "";
  }
  command();
}

form.querySelector("#pictures")?.addEventListener("input", (event) => {
  form.querySelector("#source").value = event.target.value;
});
name.addEventListener("input", () => (named = true));
form.addEventListener("input", show);
form.addEventListener("change", show);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  let found = { error: "The server does not answer." };
  try {
    const answer = await fetch("/new/prepare", { method: "POST", headers: { Accept: "application/json" }, body: new URLSearchParams(new FormData(form)) });
    found = await answer.json();
  } catch {
    // the message says so
  }
  problem.hidden = !found.error;
  problem.textContent = found.error ?? "";
  if (found.error) return;
  const query = new URLSearchParams({ solver: found.solver, job: found.jobs.at(-1).id });
  location.assign(`/new/edit?${query}`);
});
show();
