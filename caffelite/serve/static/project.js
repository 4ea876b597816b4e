// The page of a new project: waits until it is made, then shows what augmentation makes of its pictures.

const PERIOD = 700;
const SHOWN = 8; // pictures of a sample

async function look() {
  const box = document.getElementById("making");
  if (box.dataset.ready === "yes" || box.dataset.failed === "yes") return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("making");
    if (answer.ok && next?.dataset.ready === "yes") return location.reload();
    if (next) box.replaceWith(document.adoptNode(next));
  } catch {
    // the server restarts
  }
  setTimeout(look, PERIOD);
}

async function preview(box) {
  for (const number of [0, 1]) {
    const query = new URLSearchParams({ net: box.dataset.net, number, count: SHOWN - 1 });
    const answer = await fetch(`/data/preview.json?${query}`);
    if (!answer.ok) return;
    const { stored, draws } = await answer.json();
    const row = Object.assign(document.createElement("div"), { className: "preview" });
    row.append(...[stored, ...draws].map((src, i) => Object.assign(document.createElement("img"), { src, alt: i ? "varied" : "as stored" })));
    box.append(row);
  }
}

const shown = document.getElementById("preview");
if (shown) preview(shown);
look();
