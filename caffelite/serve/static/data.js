// The page of a data set: waits for its audit, and shows what augmentation makes of a sample.

const PERIOD = 1000;

async function waitForAudit() {
  const answer = await fetch(`/data/set.json${location.search}`);
  const found = answer.ok ? await answer.json() : {};
  if (found.audit && !found.audit.pending) location.reload();
  else setTimeout(waitForAudit, PERIOD);
}

function picture(src, alt) {
  return Object.assign(document.createElement("img"), { src, alt });
}

document.getElementById("preview-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const query = new URLSearchParams(new FormData(event.target));
  const answer = await fetch(`/data/preview.json?${query}`);
  const found = await answer.json();
  document.getElementById("preview-message").textContent = answer.ok ? "" : found.error;
  const pictures = answer.ok ? [picture(found.stored, "as stored"), ...found.draws.map((src) => picture(src, "a draw"))] : [];
  document.getElementById("preview").replaceChildren(...pictures);
});

if (document.getElementById("pending")) waitForAudit();
