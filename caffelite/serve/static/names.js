// Names of new folders: allowed characters, and none that is taken.

/** A text as the name of a folder, as form.html allows it; other characters become underscores. */
export function allowed(text) {
  return text.trim().replace(/[/\\"',]/g, "_").replace(/^[-.\s]+/, "").slice(0, 60).trim() || "pictures";
}

/** The name, or the name with the first number from 2 on that is not taken. */
export function free(name, taken) {
  const names = new Set(taken);
  if (!names.has(name)) return name;
  let number = 2;
  while (names.has(`${name}_${number}`)) number += 1;
  return `${name}_${number}`;
}
