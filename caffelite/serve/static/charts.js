// Curves of runs: panels that share the x axis, drawn by Plotly as SVG. Raw values are kept complete; what is drawn is
// reduced to the least and greatest value of each of some hundred intervals of the visible range.

const INTERVALS = 700;
const SERIES = 8;

/** {output, index} of a score that is one value of an output with several, as the share of a class; else null. */
export function valueOf(name) {
  const several = /^(.+)\[(\d+)\]$/.exec(name);
  return several && { output: several[1], index: Number(several[2]) };
}

/** The curves of a panel that are drawn: of more than SERIES values of one output those with the lowest last one. */
export function lowest(curves) {
  if (curves.length <= SERIES || curves[0].index === undefined) return curves;
  const last = (curve) => curve.values.at(-1) ?? Infinity;
  const chosen = new Set([...curves].sort((a, b) => last(a) - last(b)).slice(0, SERIES));
  return curves.filter((curve) => chosen.has(curve));
}

export class Series {
  /** The records of one run. losses: of every iteration from 0 on. rows: of metrics.csv. */
  constructor(folder, name) {
    Object.assign(this, { folder, name, losses: new Float32Array(0), count: 0, rows: [], epoch: null, position: "" });
  }

  async load() {
    const query = `folder=${encodeURIComponent(this.folder)}`;
    const answer = await fetch(`/run/data.json?${query}`);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const data = await answer.json();
    const body = await (await fetch(`/run/losses?${query}&count=${data.losses}`)).arrayBuffer();
    this.losses = new Float32Array(body);
    this.count = this.losses.length;
    this.rows = data.rows;
    this.epoch = data.epoch;
    this.position = data.position;
    this.state = data.state;
  }

  append(first, losses, rows) {
    const end = first + losses.length;
    if (end > this.losses.length) {
      const larger = new Float32Array(Math.max(end, 2 * this.losses.length, 1024));
      larger.set(this.losses.subarray(0, this.count));
      this.losses = larger;
    }
    for (let i = 0; i < losses.length; i++) this.losses[first + i] = losses[i] ?? NaN;
    if (losses.length) this.count = end;
    this.rows.push(...rows);
  }

  /** Turns iterations into the unit of the x axis. */
  unit(axis) {
    if (axis === "epoch" && this.epoch) return (i) => (i * this.epoch.batch) / this.epoch.samples;
    if (axis === "hours") return this.#hours();
    return (i) => i;
  }

  #hours() {
    const known = [[0, 0], ...this.rows.map((row) => [row.iteration, row.seconds / 3600])];
    known.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let k = 1;
    return (i) => {
      if (known.length < 2) return 0;
      if (i < known[k - 1][0]) k = 1;
      while (k < known.length - 1 && known[k][0] < i) k++;
      const [[i0, t0], [i1, t1]] = [known[k - 1], known[k]];
      return i1 > i0 ? t0 + ((t1 - t0) * (i - i0)) / (i1 - i0) : t1;
    };
  }

  /** The curves by panel: {panel: [{phase, iterations, values, dense, index}]}; index: of one of several values. */
  curves() {
    const found = new Map();
    const add = (panel, curve) => found.set(panel, [...(found.get(panel) ?? []), curve]);
    if (this.count) add("loss", { phase: "train", dense: true, values: this.losses.subarray(0, this.count) });
    const columns = new Map();
    for (const row of this.rows) {
      for (const [name, value] of Object.entries(row)) {
        if (["iteration", "seconds", "phase", "smoothed_loss"].includes(name)) continue;
        if (name === "loss" && row.phase === "train" && this.count) continue;
        const key = JSON.stringify([name, row.phase]);
        if (!columns.has(key)) columns.set(key, { phase: row.phase, iterations: [], values: [] });
        columns.get(key).iterations.push(row.iteration);
        columns.get(key).values.push(value);
      }
    }
    for (const [key, curve] of columns) {
      const [name, phase] = JSON.parse(key);
      if (name === "rate" && phase === "train") this.#addLastRate(curve);
      const several = valueOf(name);
      if (several) add(several.output, { ...curve, index: several.index });
      else add(name === "rate" ? "learning rate" : name, curve);
    }
    return found;
  }

  /** The rate of the last iteration, which no row has where a run ends between two of them. */
  #addLastRate(curve) {
    const last = this.state?.last_rate;
    if (!last || last.iteration !== this.count - 1 || last.iteration <= curve.iterations.at(-1)) return;
    curve.iterations.push(last.iteration);
    curve.values.push(last.rate);
  }
}

/** An exponential average without bias at the start; values that are not finite are passed over. */
export function smoothed(values, weight) {
  if (!weight) return values;
  const found = new Float32Array(values.length);
  let sum = 0;
  let scale = 0;
  for (let i = 0; i < values.length; i++) {
    if (Number.isFinite(values[i])) {
      sum = weight * sum + (1 - weight) * values[i];
      scale = weight * scale + (1 - weight);
      found[i] = sum / scale;
    } else found[i] = NaN;
  }
  return found;
}

/** x and y of the least and greatest value of each interval between two indices, in order. */
export function reduced(values, from, to) {
  const x = [];
  const y = [];
  const step = Math.max(1, Math.ceil((to - from) / INTERVALS));
  for (let start = from; start < to; start += step) {
    const end = Math.min(to, start + step);
    let low = -1;
    let high = -1;
    for (let i = start; i < end; i++) {
      if (!Number.isFinite(values[i])) continue;
      if (low < 0 || values[i] < values[low]) low = i;
      if (high < 0 || values[i] > values[high]) high = i;
    }
    if (low < 0) {
      x.push(start);
      y.push(null);
      continue;
    }
    for (const i of low === high ? [low] : low < high ? [low, high] : [high, low]) {
      x.push(i);
      y.push(values[i]);
    }
  }
  return [x, y];
}

/** The order of panels: losses, scores, learning rate. */
function rank(name) {
  return name === "learning rate" ? 2 : /loss|error/i.test(name) ? 0 : 1;
}

/** The range of an axis for curves that are constant, which Plotly would draw from 1 below to 1 above them; else null. */
export function flat(traces, logarithmic) {
  let low = Infinity;
  let high = -Infinity;
  for (const { y } of traces) {
    for (const value of y) {
      if (value === null || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low !== high || low === 0) return null;
  if (logarithmic) return low > 0 ? [Math.log10(low / 2), Math.log10(low * 2)] : null;
  return low > 0 ? [0, 2 * low] : [2 * low, 0];
}

const OUTLIER = 3;
const FEW = 8;

/** The largest value that an axis shows: three times the 95th percentile; Infinity for fewer than FEW values, and where the percentile is not positive. */
export function limit(values) {
  const finite = values.filter((value) => value !== null && Number.isFinite(value)).sort((a, b) => a - b);
  const percentile = finite.length < FEW ? 0 : finite[Math.floor(0.95 * (finite.length - 1))];
  return percentile > 0 ? OUTLIER * percentile : Infinity;
}

/** What lies above the limit of a panel: {range of the axis, trace of triangles at its edge}; else null. */
export function outliers(traces, logarithmic) {
  const values = traces.flatMap((trace) => trace.y);
  const top = limit(values);
  const shown = values.filter((value) => value !== null && Number.isFinite(value) && value <= top);
  const above = traces.flatMap(({ x, y }) => y.flatMap((value, i) => (value > top && value < Infinity ? [[x[i], value]] : [])));
  if (!above.length) return null;
  const highest = Math.max(...shown);
  const lowest = Math.min(...shown.filter((value) => !logarithmic || value > 0));
  const low = Math.min(0, lowest);
  const range = logarithmic
    ? [Math.log10(lowest / 1.1), Math.log10(1.1 * highest)]
    : [low - 0.05 * (highest - low), highest + 0.08 * (highest - low)];
  const edge = highest + 0.03 * (highest - low);
  const trace = { x: above.map(([x]) => x), y: above.map(() => edge), text: above.map(([, value]) => value.toPrecision(4)) };
  return { range, trace };
}

const LEGEND_ROW = 19; // pixels

/** The rows that the legend takes in a width: Plotly makes its entries as wide as the widest one. */
function legendRows(traces, width) {
  const names = traces.filter((trace) => trace.showlegend).map((trace) => trace.name);
  if (names.length < 2) return 0;
  const widest = 46 + 7 * Math.max(...names.map((name) => name.length));
  return Math.ceil(names.length / Math.max(1, Math.floor(width / widest)));
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class Chart {
  /** series: of Series. The controls are those of the page: axis, smooth, log, reset. */
  constructor(element, series) {
    this.element = element;
    this.series = series;
    this.controls = Object.fromEntries(["axis", "smooth", "log", "reset"].map((id) => [id, document.getElementById(id)]));
    this.range = null;
    this.#read();
    for (const id of ["axis", "smooth", "log"]) {
      this.controls[id].addEventListener("input", () => {
        if (id === "axis") this.range = null;
        this.draw();
        this.#write();
      });
    }
    this.controls.reset.addEventListener("click", () => this.zoom(null));
    document.addEventListener("keydown", (event) => {
      if (event.key !== "g" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select")) return;
      this.controls.log.click();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    addEventListener("resize", () => this.draw()); // the legend takes other rows
  }

  #read() {
    const query = new URLSearchParams(location.search);
    if (["iteration", "epoch", "hours"].includes(query.get("x"))) this.controls.axis.value = query.get("x");
    if (query.has("smooth")) this.controls.smooth.value = query.get("smooth");
    this.controls.log.checked = query.get("log") === "1";
    const range = (query.get("range") ?? "").split(",").map(Number);
    if (query.has("range") && range.length === 2 && range.every(Number.isFinite)) this.range = range;
  }

  #write() {
    const url = new URL(location.href);
    const set = (name, value) => (value === null ? url.searchParams.delete(name) : url.searchParams.set(name, value));
    set("x", this.controls.axis.value === "iteration" ? null : this.controls.axis.value);
    set("smooth", this.controls.smooth.value === this.controls.smooth.defaultValue ? null : this.controls.smooth.value);
    set("log", this.controls.log.checked ? "1" : null);
    set("range", this.range ? this.range.map((x) => Number(x.toPrecision(6))).join(",") : null);
    history.replaceState(null, "", url);
  }

  zoom(range) {
    this.range = range;
    this.draw();
    this.#write();
  }

  /** Draws on the next frame; calls before that frame count once. */
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  #panels() {
    const panels = new Map();
    this.series.forEach((series, number) => {
      for (const [name, curves] of series.curves()) {
        if (curves[0].index !== undefined && this.series.length > 1) continue; // too many to tell apart
        if (!panels.has(name)) panels.set(name, []);
        panels.get(name).push(...curves.map((curve) => ({ ...curve, series, number })));
      }
    });
    return [...panels].sort(([a], [b]) => rank(a) - rank(b));
  }

  #traces(name, curve, axis) {
    const { series, number, phase } = curve;
    const unit = series.unit(this.controls.axis.value);
    const several = this.series.length > 1;
    const test = phase !== "train";
    const one = curve.index !== undefined;
    const color = css(`--series-${((one ? curve.position + 2 : several ? number : Number(test)) % SERIES) + 1}`);
    const part = one ? (series.labels?.[curve.index] ?? `${name} ${curve.index}`) : "";
    const label = part || (several ? series.name : name === "learning rate" ? "rate" : phase);
    const legendgroup = part || (several ? String(number) : phase);
    const base = { type: "scatter", mode: "lines", xaxis: "x", yaxis: axis, legendgroup, showlegend: false };
    const meta = { run: series.name, panel: name, phase };
    const tip = several ? `%{y:.5g} ${phase}` : "%{y:.5g}";
    const line = { color: color, width: test || name === "learning rate" ? 2 : 1.6 };
    if (!curve.dense) {
      if (name === "learning rate") line.shape = "hv";
      const mode = test && curve.values.length <= 60 ? "lines+markers" : "lines";
      if (several && !test && name !== "learning rate") line.dash = "dot";
      const x = curve.iterations.map(unit);
      return [{ ...base, mode, x, y: curve.values, line, marker: { size: 5, color: color }, name: label, meta, hovertemplate: tip }];
    }
    const [from, to] = this.#visible(curve.values.length, unit);
    const weight = Number(this.controls.smooth.value);
    const [x, y] = reduced(curve.values, from, to);
    const raw = { ...base, x: x.map(unit), y, line: { ...line, width: 1 }, name: `${label}, raw`, hoverinfo: "skip", meta: { ...meta, raw: true } };
    if (!weight) return [{ ...raw, hoverinfo: undefined, hovertemplate: tip, name: label, line, meta }];
    const [sx, sy] = reduced(smoothed(curve.values, weight), from, to);
    return [{ ...raw, opacity: 0.28 }, { ...base, x: sx.map(unit), y: sy, line, name: label, meta, hovertemplate: tip }];
  }

  /** The indices of a dense curve within the visible range, and one more on each side. */
  #visible(length, unit) {
    if (!this.range) return [0, length];
    const at = (value) => {
      let low = 0;
      let high = length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (unit(middle) < value) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    return [Math.max(0, at(this.range[0]) - 1), Math.min(length, at(this.range[1]) + 2)];
  }

  #draw() {
    const { Plotly } = window;
    const panels = this.#panels();
    document.getElementById("no-data").hidden = panels.length > 0;
    document.getElementById("smooth-value").textContent = this.controls.smooth.value;
    this.element.hidden = !panels.length;
    if (!panels.length || !Plotly) return;
    const ink = css("--ink");
    const muted = css("--muted");
    const grid = css("--line");
    const weights = panels.map(([name]) => (name === "learning rate" ? 0.55 : 1));
    const total = weights.reduce((a, b) => a + b, 0);
    const gap = 0.035;
    const height = (1 - gap * (panels.length - 1)) / total;
    const layout = {
      height: Math.round(70 + 190 * total),
      margin: { l: 62, r: 16, t: 12, b: 44 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: muted },
      hovermode: "x unified",
      hoversubplots: "axis",
      hoverlabel: { bgcolor: css("--surface"), bordercolor: grid, font: { color: ink } },
      dragmode: "zoom",
      uirevision: "kept",
      legend: { orientation: "h", yref: "container", y: 1, yanchor: "top", x: 0, xanchor: "left", font: { color: ink } },
      xaxis: {
        title: { text: this.controls.axis.value, standoff: 8 },
        anchor: panels.length > 1 ? `y${panels.length}` : "y",
        gridcolor: grid,
        zeroline: false,
        showspikes: true,
        spikemode: "across",
        spikesnap: "cursor",
        spikethickness: 1,
        spikedash: "solid",
        spikecolor: muted,
        exponentformat: "none",
        separatethousands: true,
        ...(this.range ? { range: this.range, autorange: false } : { autorange: true }),
      },
    };
    const traces = [];
    const named = new Set();
    let top = 1;
    panels.forEach(([name, every], i) => {
      const curves = lowest(every).map((curve, position) => ({ ...curve, position }));
      const key = i ? `yaxis${i + 1}` : "yaxis";
      const bottom = Math.max(0, top - height * weights[i]);
      const title = curves.length < every.length ? `${name}<br>lowest ${curves.length} of ${every.length}` : name;
      layout[key] = {
        domain: [bottom, top],
        anchor: "x",
        title: { text: title, font: { color: ink, size: 12 }, standoff: 6 },
        gridcolor: grid,
        zeroline: false,
        fixedrange: true,
        nticks: name === "learning rate" ? 4 : 6,
        type: this.controls.log.checked && rank(name) !== 1 ? "log" : "linear",
        tickformat: ".4~g", // powers of ten as superscripts would need a style attribute, which the policy refuses
      };
      top = bottom - gap;
      const all = curves.map((curve) => this.#traces(name, curve, i ? `y${i + 1}` : "y"));
      const logarithmic = layout[key].type === "log";
      const outside = rank(name) < 2 ? outliers(all.flat(), logarithmic) : null;
      const range = outside?.range ?? flat(all.flat(), logarithmic);
      if (outside) {
        const marker = { symbol: "triangle-up", size: 7, color: ink };
        const meta = { panel: name, outliers: true };
        const axes = { xaxis: "x", yaxis: i ? `y${i + 1}` : "y", type: "scatter", mode: "markers", showlegend: false };
        traces.push({ ...axes, ...outside.trace, marker, meta, hovertemplate: "%{text}", name: "above" });
      }
      Object.assign(layout[key], range ? { range, autorange: false } : { autorange: true });
      for (const found of all) {
        const last = found.at(-1);
        if (!named.has(last.legendgroup) && (name !== "learning rate" || this.series.length > 1)) {
          named.add(last.legendgroup);
          last.showlegend = true;
        }
        traces.push(...found);
      }
    });
    const above = LEGEND_ROW * legendRows(traces, this.element.clientWidth - layout.margin.l - layout.margin.r);
    layout.margin.t += above;
    layout.height += above;
    this.element.style.height = `${layout.height}px`; // which Plotly reads when the window changes
    Plotly.react(this.element, traces, layout, { displaylogo: false, responsive: true, displayModeBar: false });
    if (!this.bound) {
      this.bound = true;
      this.element.on("plotly_relayout", (change) => {
        if ("xaxis.range[0]" in change) this.zoom([change["xaxis.range[0]"], change["xaxis.range[1]"]]);
        else if (change["xaxis.autorange"]) this.zoom(null);
      });
    }
  }
}

/** Loads a series; while the server does not answer, again every second. */
export async function loaded(series) {
  for (;;) {
    try {
      await series.load();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

/** Follows runs by one stream; handlers: records, state. A reset reads a run again. A page that is hidden has no
 * stream, because a browser opens six connections to a server at most. */
export function follow(all, handlers) {
  const byFolder = new Map(all.map((series) => [series.folder, series]));
  let source = null;
  let reading = false;

  function open() {
    const query = new URLSearchParams();
    for (const series of all) {
      query.append("folder", series.folder);
      query.append("since", series.position);
    }
    source = new EventSource(`/run/stream?${query}`);
    source.addEventListener("records", async (event) => {
      const update = JSON.parse(event.data);
      const series = byFolder.get(update.folder);
      event.lastEventId.split(",").forEach((position, i) => (all[i].position = position));
      if (update.reset) {
        source.close();
        reading = true;
        await loaded(series);
        reading = false;
        open();
      } else series.append(update.first, update.losses, update.rows);
      handlers.records(update);
    });
    source.addEventListener("state", (event) => handlers.state?.(JSON.parse(event.data)));
    source.addEventListener("gone", () => all.length === 1 && source.close());
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else if (!reading && source.readyState === EventSource.CLOSED) open();
  });
  open();
}
