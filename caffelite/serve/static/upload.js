// Pictures that are dropped or chosen: shown by class as they are read, then sent. Whether all is sent by itself, and
// what follows, is the page's matter.

import { allowed, free } from "./names.js";
import { filesOf } from "./zip.js";

const THUMBS = 8; // of a class
const MOST = 10_000; // files, as the server takes them
const CLUTTER = /(^|\/)(\.|__MACOSX\/|Thumbs\.db$)/; // that systems put beside pictures
const PICTURE = /\.(png|jpe?g|bmp|webp|gif|tiff?)$/i;

export class Upload {
  /** form: of form.html. sent: called with the answer of the server. complete: called when files were added. */
  constructor(form, { sent, complete = () => {} }) {
    Object.assign(this, { form, sent, complete, files: [], classes: new Map(), named: false });
    this.staged = form.querySelector("#staged");
    this.message = form.querySelector("#upload-message");
    const drop = form.querySelector("#drop-pictures");
    for (const name of ["dragover", "dragleave", "drop"]) {
      drop.addEventListener(name, (event) => {
        event.preventDefault();
        drop.classList.toggle("over", name === "dragover");
      });
    }
    drop.addEventListener("drop", (event) => this.add(dropped(event.dataTransfer)));
    for (const input of form.querySelectorAll("input[type=file]")) {
      input.addEventListener("change", () => {
        const chosen = [...input.files].map((file) => ({ name: file.webkitRelativePath || file.name, file }));
        input.value = ""; // the script sends them
        if (chosen.length) this.add(chosen);
      });
    }
    form.elements.name.addEventListener("input", () => (this.named = true));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
  }

  get archives() {
    return this.files.filter((one) => /\.zip$/i.test(one.name)).length;
  }

  /** Adds {name, file} of a list or an asynchronous iterator, and shows each. */
  async add(files) {
    this.message.textContent = "";
    for await (const one of files) {
      if (CLUTTER.test(one.name)) continue;
      if (this.files.length >= MOST) {
        this.message.textContent = `More than ${MOST.toLocaleString("en")} files: the others are left out.`;
        break;
      }
      this.files.push(one);
      if (/\.zip$/i.test(one.name)) await this.#unpack(one);
      else this.#show(one.name, () => one.file);
    }
    this.form.querySelector("#upload-details").hidden = !this.files.length;
    if (!this.named && this.files.length) {
      const [first, ...others] = this.files[0].name.split("/");
      const folders = new Set(this.files.map((file) => file.name.split("/")[0]));
      const one = folders.size === 1 && (others.length > 1 || this.archives);
      this.form.elements.name.value = free(allowed(one ? first.replace(/\.zip$/i, "") : "pictures"), JSON.parse(this.form.dataset.taken));
    }
    this.complete(this);
  }

  /** Shows what is in an archive; the server unpacks it. */
  async #unpack({ name, file }) {
    const found = await filesOf(file).catch(() => null);
    for (const { name, read } of found ?? []) if (!CLUTTER.test(name)) this.#show(name, read);
    if (!found) this.#row(name).querySelector(".muted").textContent = "is unpacked by the server";
  }

  /** The section of a class. */
  #row(title) {
    if (!this.classes.has(title)) {
      const row = document.createElement("section");
      row.className = "class-row";
      const heading = document.createElement("h3");
      heading.append(Object.assign(document.createElement("span"), { textContent: title || "files without a folder" }), " ", Object.assign(document.createElement("span"), { className: "muted" }));
      row.append(heading, Object.assign(document.createElement("div"), { className: "thumbs" }));
      this.staged.append(row);
      this.classes.set(title, { row, count: 0 });
    }
    return this.classes.get(title).row;
  }

  /** read: gives the file of a picture, null where it cannot be shown. */
  async #show(name, read) {
    const title = name.split("/").at(-2) ?? "";
    if (!title) this.form.querySelector("#class-of-files").hidden = false;
    const row = this.#row(title);
    const found = this.classes.get(title);
    found.count += 1;
    row.querySelector(".muted").textContent = found.count.toLocaleString("en");
    if (found.count > THUMBS || !read || !PICTURE.test(name)) return;
    const image = Object.assign(document.createElement("img"), { alt: name });
    row.querySelector(".thumbs").append(image);
    const file = await Promise.resolve(read()).catch(() => null); // the server judges what is damaged
    if (!file) return;
    image.src = URL.createObjectURL(file);
    for (const end of ["load", "error"]) image.addEventListener(end, () => URL.revokeObjectURL(image.src), { once: true });
  }

  send() {
    if (!this.files.length) {
      this.message.textContent = "Choose or drop pictures first.";
      return;
    }
    if (!this.form.reportValidity()) return;
    const content = new FormData(this.form);
    content.delete("images");
    for (const { name, file } of this.files) content.append("images", file, name);
    const request = new XMLHttpRequest(); // which, other than fetch, tells how much is sent
    const bar = this.form.querySelector("#sent");
    const button = this.form.querySelector("#send");
    const over = (text) => {
      bar.hidden = true;
      button.disabled = false;
      this.message.textContent = text;
    };
    request.open("POST", this.form.action);
    request.setRequestHeader("Accept", "application/json");
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => (bar.value = event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status === 200) this.sent(request.response);
      else over(request.response?.error ?? "The server refuses the upload.");
    });
    request.addEventListener("error", () => over("The server does not answer."));
    bar.hidden = false;
    button.disabled = true;
    request.send(content);
  }
}

/** The files of a drop, also those in folders: {name, file} one by one. */
async function* dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  for (const entry of entries) yield* below(entry, "");
}

async function* below(entry, above) {
  const name = above + entry.name;
  if (entry.isFile) {
    yield { name, file: await new Promise((done, failed) => entry.file(done, failed)) };
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return;
    for (const each of some) yield* below(each, `${name}/`);
  }
}
