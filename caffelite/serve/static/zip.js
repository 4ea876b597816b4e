// Reads the directory of a ZIP archive and single files of it, so that its pictures are shown before it is sent.

const END = 0x06054b50; // mark of the end of an archive
const ENTRY = 0x02014b50; // mark of a file in its directory
const LONGEST_END = 65_557; // bytes, with the longest comment
const LARGEST = 32 << 20; // bytes of a picture that is shown, as the server takes them
const CP437 = // of the bytes from 128 on
  "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐" +
  "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■ ";
const [ENCRYPTED, UTF_8] = [1, 0x800];

/** The files of an archive: [{name, read}], where read() gives a Blob; null for one that only the server can judge:
 * damaged, or with more files than 16 bits count. */
export async function filesOf(archive) {
  const tail = await bytes(archive, Math.max(0, archive.size - LONGEST_END), archive.size);
  let at = tail.byteLength - 22;
  while (at >= 0 && tail.getUint32(at, true) !== END) at--;
  if (at < 0) return null;
  const [count, length, start] = [tail.getUint16(at + 10, true), tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
  if (count === 0xffff || start + length > archive.size) return null;
  const directory = await bytes(archive, start, start + length);
  const found = [];
  for (let from = 0, i = 0; i < count; i++) {
    if (from + 46 > length || directory.getUint32(from, true) !== ENTRY) return null;
    const [flags, method] = [directory.getUint16(from + 8, true), directory.getUint16(from + 10, true)];
    const [packed, size] = [directory.getUint32(from + 20, true), directory.getUint32(from + 24, true)];
    const [named, extra, comment] = [28, 30, 32].map((offset) => directory.getUint16(from + offset, true));
    const local = directory.getUint32(from + 42, true);
    if (from + 46 + named > length) return null;
    const name = text(new Uint8Array(directory.buffer, from + 46, named), flags & UTF_8);
    const shown = !(flags & ENCRYPTED) && (method === 0 || method === 8) && size <= LARGEST;
    if (!name.endsWith("/")) found.push({ name, read: shown ? () => content(archive, local, packed, method) : null });
    from += 46 + named + extra + comment;
  }
  return found;
}

async function bytes(file, from, to) {
  return new DataView(await file.slice(from, to).arrayBuffer());
}

/** A name as the server reads it: zip of Linux and macOS writes UTF-8 without the flag that says so, DOS code page 437. */
function text(raw, utf8) {
  try {
    return new TextDecoder("utf-8", { fatal: !utf8 }).decode(raw);
  } catch {
    return [...raw].map((byte) => (byte < 128 ? String.fromCharCode(byte) : CP437[byte - 128])).join("");
  }
}

async function content(archive, local, packed, method) {
  const head = await bytes(archive, local, local + 30);
  const start = local + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  const part = archive.slice(start, start + packed);
  if (method === 0) return part;
  return new Response(part.stream().pipeThrough(new DecompressionStream("deflate-raw"))).blob();
}
