#!/usr/bin/env python3
"""Write caffelite/fork/bvlc.txt: the layer types and messages of BVLC's Caffe, and digests of all versions of the
sources of layers in its history.

usage: python tools/digest_bvlc.py REPOSITORY

REPOSITORY is a clone of https://github.com/BVLC/caffe, with its history.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from google.protobuf.descriptor_pb2 import DescriptorProto  # noqa: E402

from caffelite.fork import compiler, history  # noqa: E402

HEAD = "# Of https://github.com/BVLC/caffe, written by tools/digest_bvlc.py\n"
PROTO = "src/caffe/proto/caffe.proto"


def versions(repository: str) -> dict[str, set[str]]:
    """The git objects of each source of layers, by its name."""
    command = ["git", "-C", repository, "log", "HEAD", "--raw", "--no-abbrev", "--no-renames", "-m", "--format="]
    log = subprocess.run([*command, "--", "src/caffe/layers"], check=True, capture_output=True, text=True).stdout
    found: dict[str, set[str]] = defaultdict(set)
    for line in log.splitlines():
        match = re.match(r":\d+ \d+ (\w+) (\w+) \w\t.*/(\w+\.(?:cpp|cu))$", line)
        if match:
            found[match[3]] |= {match[1], match[2]} - {"0" * 40}
    return found


def contents(repository: str, objects: list[str]) -> dict[str, str]:
    """The texts of git objects."""
    command = ["git", "-C", repository, "cat-file", "--batch"]
    out = subprocess.run(command, input="\n".join(objects).encode(), check=True, capture_output=True).stdout
    texts, at = {}, 0
    while at < len(out):
        end = out.index(b"\n", at)
        name, _, size = out[at:end].decode().split()
        texts[name] = out[end + 1 : end + 1 + int(size)].decode(errors="replace")
        at = end + 2 + int(size)
    return texts


def words(message: DescriptorProto) -> list[str]:
    """The fields of a message and the values of its enums."""
    return sorted([field.name for field in message.field] + [v.name for e in message.enum_type for v in e.value])


def newest(repository: str) -> list[str]:
    """Lines of the types and messages of the newest version."""

    def shown(*arguments: str) -> str:
        command = ["git", "-C", repository, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "caffe.proto").write_text(shown("show", f"HEAD:{PROTO}"))
        messages = compiler.compiled(Path(folder) / "caffe.proto").file[-1].message_type
    sources = shown("grep", "-h", "-E", "^REGISTER_LAYER_(CLASS|CREATOR)", "HEAD", "--", "src/caffe")
    types = sorted(set(re.findall(r"\((\w+)", sources)))
    return [f"types: {' '.join(types)}\n", *(f"message {m.name}: {' '.join(words(m))}\n" for m in messages)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository")
    found = versions(parser.parse_args().repository)
    texts = contents(parser.parse_args().repository, sorted(set().union(*found.values())))
    lines = []
    for name, objects in sorted(found.items()):
        digests = sorted({history.digest(texts[each]) for each in objects})
        lines.append(f"{name}: {' '.join(digests)}\n")
    history.FILE.write_text(HEAD + "".join([*newest(parser.parse_args().repository), *lines]))
    print(f"{len(lines)} sources, {sum(line.count(' ') for line in lines)} versions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
