// What the best weights so far answer for samples of the test data, while a run trains.

const COUNT = 12; // samples
const PAUSE = 8000; // milliseconds between two rounds at least

export class Predictions {
  constructor(box, folder) {
    Object.assign(this, { box, folder, last: -PAUSE, busy: false, waits: 0 });
  }

  /** Asks again, once the last round is over and some time has passed. */
  update() {
    clearTimeout(this.waits);
    const wait = this.last + PAUSE - performance.now();
    if (this.busy || wait > 0 || document.hidden) {
      this.waits = setTimeout(() => this.update(), Math.max(wait, 1000));
      return;
    }
    this.busy = true;
    this.#ask().catch(() => {}).finally(() => {
      this.last = performance.now();
      this.busy = false;
    });
  }

  async #ask() {
    const found = await fetch(`/run/samples.json?${new URLSearchParams({ folder: this.folder, count: COUNT, spread: 1 })}`);
    if (!found.ok) return;
    const { samples, best } = await found.json();
    if (!best) return;
    const figures = [];
    for (const sample of samples) {
      const form = new FormData();
      form.set("net", best);
      form.set("top", "1");
      form.set("image", await (await fetch(sample.image)).blob(), "image.png");
      const answer = await fetch("/try/classify", { method: "POST", body: form, headers: { Accept: "application/json" } });
      const { answers } = await answer.json();
      if (!answer.ok || !answers?.length) return;
      figures.push(this.#figure(sample, answers[0]));
    }
    this.box.querySelector(".thumbs").replaceChildren(...figures);
    this.box.hidden = !figures.length;
  }

  #figure(sample, { label, score }) {
    const figure = document.createElement("figure");
    figure.className = label === sample.label ? "right" : "wrong";
    const caption = document.createElement("figcaption");
    caption.textContent = `${label} ${Math.round(100 * score)} %`;
    const image = Object.assign(document.createElement("img"), { src: sample.image, alt: sample.label, title: `labeled ${sample.label}` });
    figure.append(image, caption);
    return figure;
  }
}
