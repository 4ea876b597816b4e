// The first page: pictures are sent as soon as they are complete, then a project is made of them.

import { Upload } from "./upload.js";

const form = document.getElementById("upload");

async function prepare(path, leftOut) {
  const body = new URLSearchParams({ data: "images", source: path });
  const answer = await fetch("/start/prepare", { method: "POST", headers: { Accept: "application/json" }, body });
  const made = await answer.json();
  if (!answer.ok) throw new Error(made.error);
  const query = { solver: made.solver, data: made.data, job: made.jobs.at(-1).id };
  location.assign(`/start?${new URLSearchParams([...Object.entries(query), ...leftOut])}`);
}

new Upload(form, {
  sent: ({ path }, leftOut) => prepare(path, leftOut).catch((error) => (form.querySelector("#upload-message").textContent = error.message)),
  // One class cannot be told from another: more of them are waited for.
  complete: (upload) => {
    const loose = upload.classes.has("");
    if (!loose && (upload.archives || upload.classes.size > 1)) upload.send();
    else if (!loose) upload.message.textContent = "One class so far. Drop the folder of another class.";
  },
});
