// The state of a job, until it ends.

const box = document.getElementById("job");
const PERIOD = 700;

function written(count) {
  return count?.toLocaleString("en") ?? "";
}

function show(job) {
  const state = document.getElementById("state");
  state.textContent = job.label;
  state.dataset.state = job.state;
  document.getElementById("reason").textContent = job.reason;
  document.getElementById("output").textContent = job.output;
  for (const name of ["started", "ended"]) document.getElementById(name).textContent = job[name] || "not yet";
  const { done, total, text } = job.progress ?? {};
  document.getElementById("done").textContent = total ? `${written(done)} of ${written(total)} ${text}` : written(done);
  const bar = document.getElementById("bar");
  bar.max = total || 1;
  bar.value = job.state === "finished" ? bar.max : (done ?? 0);
  document.getElementById("result").hidden = !job.result_exists;
}

async function poll() {
  const answer = await fetch(box.dataset.url).catch(() => null); // null: the server restarts
  if (answer && !answer.ok) return;
  const job = await answer?.json();
  if (job) show(job);
  if (!job || ["queued", "running"].includes(job.state)) setTimeout(poll, PERIOD);
}

poll();
