// The page "try": where an image comes from, and the answers of one or two models for it.

import { showBoxes, showColored } from "./boxes.js";
import { Upload } from "./upload.js";

const values = JSON.parse(document.getElementById("values").textContent);
const panels = [...document.querySelectorAll(".answer")];
const WAIT = 700; // milliseconds between looks at a job

function element(name, text, properties = {}) {
  const result = Object.assign(document.createElement(name), properties);
  if (text !== undefined) result.textContent = text;
  return result;
}

const part = (panel, name) => panel.querySelector(`[data-part="${name}"]`);
const byId = (id) => document.getElementById(id);

// A job that makes the deploy net of a run

async function followJob() {
  const state = byId("job-state");
  const answer = await fetch(`/queue/jobs/${encodeURIComponent(values.job)}.json`).catch(() => null);
  if (!answer) return setTimeout(followJob, WAIT); // the server restarts
  const job = await answer.json();
  state.textContent = `${job.label ?? ""} ${job.reason ?? job.error ?? ""}`;
  if (job.state === "finished") location.replace(`/try?run=${encodeURIComponent(values.run)}`);
  else if (["queued", "running"].includes(job.state)) setTimeout(followJob, WAIT);
}

// Answers

let image = null;
let round = 0;
let asking = false;
const opened = new Map(); // by panel: the promise that its model is open

async function send(address, net, fields = {}) {
  const form = new FormData();
  form.set("net", net);
  form.set("image", image, "image.png");
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  const answer = await fetch(address, { method: "POST", body: form, headers: { Accept: "application/json" } });
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.error ?? answer.status);
  return result;
}

function row(name, share, text) {
  const line = element("li");
  const bar = element("progress", undefined, { max: 1, value: Math.min(1, Math.max(0, share)) });
  bar.setAttribute("aria-hidden", "true");
  line.append(element("span", name), bar, element("span", text, { className: "value" }));
  return line;
}

const percent = (share) => `${(100 * share).toFixed(2)} %`;

function show(panel, result) {
  part(panel, "error").textContent = "";
  const notes = result.notes.length ? ` · ${result.notes.join(", ")}` : "";
  part(panel, "facts").textContent = `${(1000 * result.seconds).toFixed(1)} ms${notes}`;
  if (result.detections) {
    const count = result.detections.length;
    part(panel, "best").textContent = count ? `${count} object${count > 1 ? "s" : ""}` : "nothing found";
    showBoxes(part(panel, "boxes"), result);
    panel.dataset.count = String(count);
    return;
  }
  const best = result.answers[0];
  part(panel, "best").textContent = best.label;
  panel.dataset.best = best.label;
  part(panel, "scores").replaceChildren(...result.answers.map((a) => row(a.label, a.score, percent(a.score))));
  if (panel.dataset.segments) {
    showColored(part(panel, "boxes"), result);
    return;
  }
  const seen = part(panel, "seen");
  seen.src = result.seen;
  seen.hidden = false;
  if (panel.dataset.reads) return;
  part(panel, "general-box").hidden = !result.general;
  part(panel, "general").replaceChildren(
    ...(result.general ?? []).map((g) => row(g.name, g.score, `${percent(g.score)}`)),
  );
  for (const name of ["layers-button", "saliency-button"]) part(panel, name).disabled = false;
  part(panel, "correct").hidden = false;
  part(panel, "labels").value = String(best.class);
  part(panel, "kept").textContent = "";
}

/** Removes the answer for another image. */
function clear(panel) {
  for (const name of ["facts", "kept"]) part(panel, name).textContent = "";
  part(panel, "best").textContent = "–";
  for (const name of ["scores", "boxes", "general", "saliency", "layers"]) part(panel, name).replaceChildren();
  for (const name of ["seen", "boxes", "general-box", "correct"]) part(panel, name).hidden = true;
  for (const name of ["layers-button", "saliency-button"]) part(panel, name).disabled = true;
  delete panel.dataset.best;
  delete panel.dataset.count;
}

// One question at a time: of images that arrive while the answer is computed, only the last one is asked about.
async function ask() {
  if (!image) return;
  round += 1;
  if (asking) return;
  asking = true;
  let answered = 0;
  try {
    while (answered !== round) {
      answered = round;
      await askOnce(answered);
    }
  } finally {
    asking = false;
  }
}

/** The fields of a request, by what the model answers. */
function fieldsOf(panel) {
  if (panel.dataset.detects) return { threshold: byId("threshold").value };
  if (panel.dataset.segments || panel.dataset.reads) return { top: "5" };
  const fields = { top: "5", hierarchy: byId("hierarchy").value.trim() };
  return byId("oversample").checked ? { ...fields, oversample: "on" } : fields;
}

async function askOnce(mine) {
  await Promise.all(
    panels.map(async (panel) => {
      panel.setAttribute("aria-busy", "true");
      try {
        await opened.get(panel);
        const result = await send("/try/classify", panel.dataset.net, fieldsOf(panel));
        if (mine !== round) return;
        show(panel, result);
        if (part(panel, "layers").childElementCount) await showLayers(panel);
        if (part(panel, "saliency").childElementCount) await showSaliency(panel);
      } catch (error) {
        if (mine !== round) return;
        clear(panel);
        part(panel, "error").textContent = error.message;
      } finally {
        panel.removeAttribute("aria-busy");
      }
    }),
  );
}

function use(blob) {
  image = blob;
  return ask();
}

async function showLayers(panel) {
  const { layers } = await send("/try/layers", panel.dataset.net);
  part(panel, "layers").replaceChildren(
    ...layers.map((layer) => {
      const caption = element("figcaption", `${layer.name} `);
      const range = `${layer.least.toPrecision(3)} … ${layer.greatest.toPrecision(3)}`;
      caption.append(element("span", `${layer.type}, ${layer.shape.join("×")}, ${range}`));
      const figure = element("figure");
      figure.append(caption, element("img", undefined, { src: layer.picture, alt: `Output of ${layer.name}` }));
      return figure;
    }),
  );
}

async function showSaliency(panel) {
  const result = await send("/try/saliency", panel.dataset.net, { class: part(panel, "labels").value });
  const names = { input: "input", saliency: "gradient", gradcam: `Grad-CAM, ${result.layer}` };
  part(panel, "saliency").replaceChildren(
    ...Object.entries(result.pictures).map(([name, src]) => {
      const figure = element("figure");
      figure.append(element("img", undefined, { src, alt: names[name], className: "pixel" }));
      figure.append(element("figcaption", `${names[name]}, class ${result.label}`));
      return figure;
    }),
  );
}

function onError(panel, act) {
  return async () => {
    try {
      await act(panel);
    } catch (error) {
      part(panel, "error").textContent = error.message;
    }
  };
}

async function openPanel(panel) {
  part(panel, "layers-button").addEventListener("click", onError(panel, showLayers));
  part(panel, "saliency-button").addEventListener("click", onError(panel, showSaliency));
  part(panel, "correct").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const kept = await send("/try/correct", panel.dataset.net, { class: part(panel, "labels").value });
      part(panel, "kept").textContent = `${kept.count} in ${kept.list}`;
    } catch (error) {
      part(panel, "kept").textContent = error.message;
    }
  });
  const answer = await fetch(`/try/model.json?net=${encodeURIComponent(panel.dataset.net)}`);
  const info = await answer.json();
  if (!answer.ok) {
    part(panel, "error").textContent = info.error;
    return;
  }
  const options = info.labels.map((label, number) => element("option", label, { value: String(number) }));
  part(panel, "labels").append(...options);
  if (info.detects) panel.dataset.detects = "true";
  if (info.segments) panel.dataset.segments = "true";
  if (info.reads) panel.dataset.reads = "true";
  part(panel, "explain").hidden = info.detects || info.segments || info.reads;
  panel.dataset.channels = String(info.shape[0]);
  panel.dataset.ready = "true";
}

/** Shows the options that the models have. The page begins with a drawing for a classifier of gray images, else with files: nobody
 * draws photographs, or what the other kinds of nets look for. */
function showOptions(choose) {
  const detectors = panels.filter((panel) => panel.dataset.detects).length;
  const special = ["detects", "segments", "reads"];
  const classifying = panels.filter((panel) => !special.some((kind) => panel.dataset[kind]));
  const classifiers = classifying.length;
  const drawn = classifying.some((panel) => panel.dataset.channels === "1");
  for (const each of document.querySelectorAll("[data-for=boxes]")) each.hidden = !detectors;
  for (const each of document.querySelectorAll("[data-for=classes]")) each.hidden = !classifiers;
  if (!drawn && !image && !byId("from-draw").hidden) choose(byId("tab-image"));
}

// Sources of images

function openTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const choose = (tab) => {
    for (const each of tabs) {
      const chosen = each === tab;
      each.setAttribute("aria-selected", String(chosen));
      each.tabIndex = chosen ? 0 : -1;
      byId(each.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (tab.id !== "tab-camera") stopCamera();
    if (tab.id === "tab-samples" && !byId("thumbs").childElementCount) showSamples();
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  });
  return choose;
}

function openDrawing() {
  const paper = byId("paper");
  const context = paper.getContext("2d");
  const strokes = [];
  let stroke = null;

  function repaint() {
    context.fillStyle = "#fff";
    context.fillRect(0, 0, paper.width, paper.height);
    context.lineCap = context.lineJoin = "round";
    context.strokeStyle = context.fillStyle = "#000";
    for (const { width, points } of strokes) {
      context.lineWidth = width;
      context.beginPath();
      points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      if (points.length === 1) context.lineTo(points[0][0], points[0][1]);
      context.stroke();
    }
  }

  function place(event) {
    const box = paper.getBoundingClientRect();
    const scale = paper.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  const answer = () => (strokes.length ? paper.toBlob((blob) => use(blob), "image/png") : undefined);
  const end = () => {
    if (!stroke) return;
    stroke = null;
    answer();
  };
  const clear = () => {
    strokes.length = 0;
    repaint();
  };

  paper.addEventListener("pointerdown", (event) => {
    paper.setPointerCapture(event.pointerId);
    stroke = { width: Number(byId("pen").value), points: [place(event)] };
    strokes.push(stroke);
    repaint();
  });
  paper.addEventListener("pointermove", (event) => {
    if (!stroke) return;
    stroke.points.push(place(event));
    repaint();
  });
  paper.addEventListener("pointerup", end);
  paper.addEventListener("pointercancel", end);
  byId("clear").addEventListener("click", clear);
  byId("undo").addEventListener("click", () => {
    strokes.pop();
    repaint();
    answer();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "c" && !event.ctrlKey && !event.metaKey && !event.target.closest("input, select, textarea")) clear();
  });
  repaint();
}

/** The picture at an address, which the server reads. */
async function download(text) {
  const form = new FormData();
  form.set("address", new URL(text).href);
  const answer = await fetch("/try/fetch", { method: "POST", body: form, headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error((await answer.json()).error ?? answer.status);
  const blob = await answer.blob();
  return new File([blob], text, { type: blob.type });
}

/** Names files of which the page shows no answer: what is no image, and all images but one. */
function showLeftOut(files) {
  const images = files.filter((one) => one.type.startsWith("image/")).length;
  const others = files.filter((one) => !one.type.startsWith("image/")).map((one) => one.name);
  const texts = [];
  if (others.length) texts.push(`No image, and left out: ${others.slice(0, 10).join(", ")}${others.length > 10 ? ", …" : ""}.`);
  if (images || others.length) texts.push(`One image is shown at a time; Many takes several, folders and archives.`);
  byId("dropped-message").textContent = texts.join(" ");
}

function openFiles(choose) {
  const drop = byId("drop");
  const accept = (files) => {
    if (!files.length) return;
    const file = [...files].find((one) => one.type.startsWith("image/"));
    choose(byId("tab-image"));
    showLeftOut([...files].filter((one) => one !== file));
    if (!file) return;
    const shown = byId("shown");
    URL.revokeObjectURL(shown.src);
    shown.src = URL.createObjectURL(file);
    shown.hidden = false;
    byId("hint").textContent = file.name;
    use(file);
  };
  byId("file").addEventListener("change", (event) => accept(event.target.files));
  byId("fetch")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const message = byId("fetch-message");
    message.textContent = "…";
    try {
      accept([await download(byId("address").value)]);
      message.textContent = "";
    } catch (error) {
      message.textContent = error.message;
    }
  });
  document.addEventListener("paste", (event) => accept(event.clipboardData.files));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!byId("from-many").hidden) return; // which takes all of them
    drop.classList.remove("over");
    accept(event.dataTransfer.files);
  });
}

function stopCamera() {
  const video = byId("video");
  for (const track of video.srcObject?.getTracks() ?? []) track.stop();
  video.srcObject = null;
  byId("snap").disabled = true;
}

function openCamera() {
  const video = byId("video");
  const message = byId("camera-message");
  byId("camera").addEventListener("click", async () => {
    try {
      video.srcObject = await navigator.mediaDevices.getUserMedia({ video: true });
      message.textContent = "";
    } catch (error) {
      message.textContent = `There is no camera for this page: ${error.message}`;
    }
  });
  video.addEventListener("loadeddata", () => (byId("snap").disabled = false));
  byId("snap").addEventListener("click", () => {
    const canvas = element("canvas", undefined, { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => use(blob), "image/png");
  });
}

let firstSample = 0;
const SAMPLES = 20;

async function showSamples() {
  const set = byId("data").value;
  if (!set) return;
  const answer = await fetch(`/data/samples.json?path=${encodeURIComponent(set)}&start=${firstSample}&count=${SAMPLES}`);
  const result = await answer.json();
  if (!answer.ok) {
    byId("thumbs").replaceChildren(element("p", result.error, { className: "message" }));
    return;
  }
  firstSample = firstSample + SAMPLES < result.total ? firstSample + SAMPLES : 0;
  byId("thumbs").replaceChildren(
    ...result.samples.map((sample) => {
      const button = element("button", undefined, { type: "button" });
      button.append(element("img", undefined, { src: sample.image, alt: "" }), element("span", sample.label));
      button.addEventListener("click", async () => {
        for (const other of byId("thumbs").children) other.setAttribute("aria-pressed", String(other === button));
        use(await (await fetch(sample.image)).blob());
      });
      return button;
    }),
  );
}

function openSamples() {
  byId("more").addEventListener("click", showSamples);
  byId("data").addEventListener("change", () => {
    firstSample = 0;
    showSamples();
  });
}

if (panels.length) {
  const choose = openTabs();
  openDrawing();
  openFiles(choose);
  openCamera();
  openSamples();
  new Upload(byId("many"), { sent: ({ page }, leftOut) => location.assign(`${page}&${new URLSearchParams(leftOut)}`) });
  for (const name of ["net", "other"]) byId(name).addEventListener("change", () => byId("choice").submit());
  byId("hierarchy").addEventListener("change", ask);
  byId("oversample").addEventListener("change", ask);
  byId("threshold").addEventListener("change", ask);
  for (const panel of panels) opened.set(panel, openPanel(panel));
  Promise.allSettled(opened.values()).then(() => showOptions(choose));
} else if (values.job) {
  followJob();
}
