// The page that compares runs: all in one chart, live.

import { Chart, Series, follow } from "./charts.js";
import "./copy.js";

const script = JSON.parse(document.getElementById("compare-data").textContent);

async function start() {
  const series = script.runs.map((run) => new Series(run.folder, run.name));
  const chart = new Chart(document.getElementById("chart"), series);
  await Promise.all(series.map((each) => each.load().catch(() => {})));
  document.querySelector("#axis [value=epoch]").disabled = !series.every((each) => each.epoch);
  window.caffelite = { series, chart };
  chart.draw();
  const followed = series.filter((each) => each.state && each.state.state !== "finished");
  const byFolder = new Map(followed.map((each) => [each.folder, each]));
  const showState = (state) => {
    const one = byFolder.get(state.folder);
    const changed = state.state !== one.state.state;
    one.state = state;
    if (changed) chart.draw();
  };
  if (followed.length) follow(followed, { records: () => chart.draw(), state: showState });
}

start();
