// The page of data sets: after an upload, the page of the new set.

import { Upload } from "./upload.js";

new Upload(document.getElementById("upload"), {
  sent: ({ path }, leftOut) => location.assign(`/data/set?${new URLSearchParams([["path", path], ...leftOut])}`),
});
