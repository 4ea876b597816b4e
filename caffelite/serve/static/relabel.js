// Corrects labels of the samples of a report where they are shown.

for (const select of document.querySelectorAll("select[data-sample]")) {
  select.addEventListener("change", async () => {
    const note = document.getElementById("corrected");
    const body = new URLSearchParams({ report: select.dataset.report, sample: select.dataset.sample, label: select.value });
    const answer = await fetch("/data/correct", { method: "POST", headers: { Accept: "application/json" }, body }).catch(() => null);
    const result = (await answer?.json()) ?? { error: "The server does not answer." };
    note.textContent = result.error ?? `${result.count} ${result.count === 1 ? "correction" : "corrections"} in ${result.list}; the pictures stay as they are.`;
    note.classList.toggle("message", Boolean(result.error));
    select.classList.toggle("changed", !result.error && select.value !== "keep");
  });
}
