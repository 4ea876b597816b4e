// Buttons that copy a command, and buttons that ask before they act.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const note = document.getElementById("copied");
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    note.textContent = `copied: ${button.dataset.copy}`;
  } catch {
    note.textContent = button.dataset.copy;
  }
});

document.addEventListener("submit", (event) => {
  const button = event.submitter?.closest("[data-confirm]");
  if (button && !confirm(button.dataset.confirm)) event.preventDefault();
});
