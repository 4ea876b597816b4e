"""Names of files in ZIP archives."""

import zipfile
from contextlib import suppress

UTF_8 = 0x800  # flag of a file in an archive


def name_of(entry: zipfile.ZipInfo) -> str:
    """The name of a file in an archive. zip of Linux and macOS writes UTF-8 without the flag that says so."""
    if not entry.flag_bits & UTF_8:
        with suppress(UnicodeError):
            return entry.filename.encode("cp437").decode()
    return entry.filename
