// The first page: pictures are sent as soon as they are complete, then a project is made of them.

import { Upload } from "./upload.js";

const form = document.getElementById("upload");

async function prepare(path) {
  const body = new URLSearchParams({ data: "images", source: path });
  const answer = await fetch("/start/prepare", { method: "POST", headers: { Accept: "application/json" }, body });
  const made = await answer.json();
  if (!answer.ok) throw new Error(made.error);
  location.assign(`/start?${new URLSearchParams({ solver: made.solver, data: made.data, job: made.jobs.at(-1).id })}`);
}

new Upload(form, {
  sent: ({ path }) => prepare(path).catch((error) => (form.querySelector("#upload-message").textContent = error.message)),
  // One class cannot be told from another: more of them are waited for.
  complete: (upload) => {
    const loose = upload.classes.has("");
    if (!loose && (upload.archives || upload.classes.size > 1)) upload.send();
    else if (!loose) upload.message.textContent = "One class so far. Drop the folder of another class.";
  },
});
