// Waits for a job, then shows the page that needs its result.

const state = document.getElementById("pending");
const PERIOD = 700;

async function poll() {
  const answer = await fetch(state.dataset.url);
  const job = await answer.json();
  state.textContent = job.state;
  state.dataset.state = job.state;
  document.getElementById("reason").textContent = job.reason;
  const bar = document.getElementById("bar");
  if (job.progress?.total) [bar.max, bar.value] = [job.progress.total, job.progress.done];
  if (job.state === "finished") location.reload();
  else if (["queued", "running"].includes(job.state)) setTimeout(poll, PERIOD);
}

poll();
