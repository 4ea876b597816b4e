// Looks once a second whether a job is done; the page that follows has the same address.

const PERIOD = 700;

async function look() {
  const box = document.getElementById("making");
  if (box.dataset.failed === "yes") return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("making");
    if (answer.ok && !next) {
      location.reload();
      return;
    }
    if (next) box.replaceWith(document.adoptNode(next));
  } catch {
    // the server restarts
  }
  setTimeout(look, PERIOD);
}

setTimeout(look, PERIOD);
