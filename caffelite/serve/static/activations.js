// The output of a layer for a sample of the run's data, on the page of one run. The deploy net of the newest snapshot
// computes it; a job makes that net where it is missing or old.

const WAIT = 500; // milliseconds between looks at a job
const COUNT = 12; // samples at a time

let first = 0;
let chosen = null; // the sample, which stays while layers change

function element(kind, text, fields = {}) {
  const found = Object.assign(document.createElement(kind), fields);
  if (text !== undefined) found.textContent = text;
  return found;
}

async function json(address, options) {
  const answer = await fetch(address, { headers: { Accept: "application/json" }, ...options });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? answer.status);
  return found;
}

/** The deploy net of the newest snapshot; a job makes it. say: shows what happens. */
async function deployed(folder, say) {
  const query = `folder=${encodeURIComponent(folder)}`;
  let found = await json(`/run/samples.json?${query}&count=0`);
  if (!found.command) throw new Error("No snapshot yet.");
  if (!found.net) {
    say(found.command);
    let job = await json("/try/deploy", { method: "POST", body: new URLSearchParams({ run: folder }) });
    while (["queued", "running"].includes(job.state)) {
      await new Promise((resolve) => setTimeout(resolve, WAIT));
      job = await json(`/queue/jobs/${job.id}.json`);
    }
    if (job.state !== "finished") throw new Error(job.reason);
    found = await json(`/run/samples.json?${query}&count=0`);
  }
  return found.net;
}

/** A part of the page that shows the activations of a layer for the sample that one chooses. */
export function activations(folder, layer) {
  const place = element("div", undefined, { id: "activations" });
  const status = element("p", "Choose a sample.", { className: "muted small" });
  status.setAttribute("role", "status");
  const thumbs = element("div", undefined, { className: "thumbs" });
  const picture = element("img", undefined, { className: "plate", hidden: true, alt: `Output of ${layer}` });
  const more = element("button", "Others", { type: "button" });

  async function show() {
    try {
      status.textContent = "…";
      const net = await deployed(folder, (text) => (status.textContent = text));
      const form = new FormData();
      form.set("net", net);
      form.set("layer", layer);
      form.set("image", await (await fetch(chosen.image)).blob(), "image.png");
      const { layers } = await json("/try/layers", { method: "POST", body: form });
      const [row] = layers;
      picture.src = row.picture;
      picture.hidden = false;
      const range = `${row.least.toPrecision(3)} … ${row.greatest.toPrecision(3)}, mean ${row.mean.toPrecision(3)}`;
      status.textContent = `sample ${chosen.number}, ${chosen.label}: ${row.shape.join("×")}, ${range}`;
    } catch (error) {
      picture.hidden = true;
      status.textContent = error.message;
    }
  }

  async function list() {
    try {
      const found = await json(`/run/samples.json?folder=${encodeURIComponent(folder)}&start=${first}&count=${COUNT}`);
      thumbs.replaceChildren(
        ...found.samples.map((sample) => {
          const button = element("button", undefined, { type: "button" });
          button.append(element("img", undefined, { src: sample.image, alt: "" }), element("span", sample.label));
          button.setAttribute("aria-label", `Sample ${sample.number}, ${sample.label}`);
          button.setAttribute("aria-pressed", String(sample.number === chosen?.number));
          button.addEventListener("click", () => {
            chosen = sample;
            for (const each of thumbs.children) each.setAttribute("aria-pressed", String(each === button));
            show();
          });
          return button;
        }),
      );
      more.hidden = found.total <= COUNT;
      more.onclick = () => {
        first = first + COUNT < found.total ? first + COUNT : 0;
        list();
      };
    } catch (error) {
      more.hidden = true;
      status.textContent = error.message;
    }
  }

  place.append(element("h3", "Activations"), thumbs, more, status, picture);
  list();
  if (chosen) show();
  return place;
}
