"""Downloads files, whatever a server says of their length."""

import http.client
import urllib.request
from collections.abc import Callable
from typing import IO

CHUNK = 1 << 18  # bytes
TIMEOUT = 30  # seconds without an answer
Progress = Callable[[int, int | None], None]


def receive(url: str, file: IO[bytes], most: int, progress: Progress = lambda done, total: None) -> None:
    """Appends to a file what it lacks of the content of an address. most: bytes. progress: receives the bytes that are
    there and those of the whole, None where the server tells no length that is one.

    Errors: OSError, also where the answer ends early or is larger than ``most``.
    """
    done = file.seek(0, 2)
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            if done and answer.status != 206:  # a server that begins anew
                done = file.seek(0)
                file.truncate()
            total = _length(answer.headers.get("Content-Length"))
            total = None if total is None else done + total
            while chunk := answer.read(CHUNK):
                done += len(chunk)
                if done > most:
                    raise OSError(f"the answer has more than {most:,} bytes")
                file.write(chunk)
                progress(done, total)
    except http.client.HTTPException as mistake:
        raise OSError(str(mistake) or type(mistake).__name__) from None
    if total is not None and done < total:
        raise OSError(f"the answer ended after {done:,} of {total:,} bytes")


def _length(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None
