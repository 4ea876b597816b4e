// Pictures that are dropped or chosen: shown by class as they are read, then sent. Whether all is sent by itself, and
// what follows, is the page's matter.

import { allowed, free } from "./names.js";
import { filesOf } from "./zip.js";

const THUMBS = 8; // of a class
const MOST = 10_000; // files, as the server takes them
const CLUTTER = /(^|\/)(\.|__MACOSX\/|Thumbs\.db$)/; // that systems put beside pictures
const PICTURE = /\.(png|jpe?g|bmp|webp|gif|tiff?)$/i;
const STARTS = /^(89504e47|ffd8ff|424d|52494646|47494638|49492a00|4d4d002a)/; // of files, in hexadecimal, as the server has them
const MOST_NAMES = 10; // of files that are left out

export class Upload {
  /** form: with `pictures` of form.html, the fields of a new folder or a path `folder`. sent: called with the answer of the server, and the query that tells
   * the next page what was left out. complete: called when files were added. */
  constructor(form, { sent, complete = () => {} }) {
    Object.assign(this, { form, sent, complete, files: [], others: [], classes: new Map(), named: false });
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
    form.elements.name?.addEventListener("input", () => (this.named = true));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(event.submitter);
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
      const archive = /\.zip$/i.test(one.name);
      if (!archive && !(await isPicture(one.file))) {
        this.others.push(one.name);
        continue;
      }
      this.files.push(one);
      if (archive) await this.#unpack(one);
      else this.#show(one.name, () => one.file);
    }
    this.#reportOthers();
    const details = this.form.querySelector("#upload-details");
    if (details) details.hidden = !this.files.length;
    if (this.form.elements.name && !this.named && this.files.length) {
      const [first, ...others] = this.files[0].name.split("/");
      const folders = new Set(this.files.map((file) => file.name.split("/")[0]));
      const one = folders.size === 1 && (others.length > 1 || this.archives);
      this.form.elements.name.value = free(allowed(one ? first.replace(/\.zip$/i, "") : "pictures"), JSON.parse(this.form.dataset.taken));
    }
    if (this.files.length) this.complete(this);
  }

  /** Names the files that are no pictures, which are not sent. */
  #reportOthers() {
    const count = this.others.length;
    const names = this.others.slice(0, MOST_NAMES).join(", ") + (count > MOST_NAMES ? ", …" : "");
    const text = count === 1 ? "1 file is no picture and is left out" : `${count.toLocaleString("en")} files are no pictures and are left out`;
    this.form.querySelector("#others").textContent = count ? `${text}: ${names}` : "";
  }

  /** The query that tells the next page what was left out. stored: the server's answer. */
  leftOut(stored) {
    const names = [...this.others, ...stored.left_out].slice(0, MOST_NAMES);
    return [["left_out", String(this.others.length + stored.others)], ...names.map((name) => ["file", name])];
  }

  /** Shows what is in an archive; the server unpacks it. */
  async #unpack({ name, file }) {
    const found = await filesOf(file).catch(() => null);
    for (const { name, read } of found ?? []) {
      if (!CLUTTER.test(name) && (PICTURE.test(name) || (await readable(read)))) this.#show(name, read);
    }
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
    if (!title) this.form.querySelector("#class-of-files")?.removeAttribute("hidden");
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

  /** button: which was pressed, whose value is sent, too. */
  send(button = this.form.querySelector("button.primary")) {
    if (!this.files.length && !this.form.elements.folder?.value.trim()) {
      this.message.textContent = "Choose or drop pictures first.";
      return;
    }
    if (!this.form.reportValidity()) return;
    const content = new FormData(this.form, button);
    content.delete("images");
    for (const { name, file } of this.files) content.append("images", file, name);
    const request = new XMLHttpRequest(); // which, other than fetch, tells how much is sent
    const bar = this.form.querySelector("#sent");
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
      if (request.status === 200) this.sent(request.response, this.leftOut(request.response));
      else over(request.response?.error ?? "The server refuses the upload.");
    });
    request.addEventListener("error", () => over("The server does not answer."));
    bar.hidden = false;
    button.disabled = true;
    request.send(content);
  }
}

/** Whether a file is a picture, by its first bytes, as the server decides. */
async function isPicture(file) {
  const start = await file.slice(0, 4).arrayBuffer().catch(() => new ArrayBuffer(0));
  return STARTS.test([...new Uint8Array(start)].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
}

/** Whether a file of an archive, by its read(), is a picture; true where only the server can tell. */
async function readable(read) {
  const file = read && (await Promise.resolve(read()).catch(() => null));
  return !file || isPicture(file);
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
