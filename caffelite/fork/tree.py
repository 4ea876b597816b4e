"""What a folder with the sources of a fork of Caffe has: its schema, its core, its layer types and their files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..errors import CaffeliteError

CORE = ("blob", "common", "layer", "syncedmem")
SKIPPED = frozenset("test tests gtest 3rdparty third_party thirdparty python matlab docs examples build".split())
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')", re.DOTALL)
_REGISTER = re.compile(r"\bREGISTER_LAYER_(CLASS|CREATOR)\s*\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\)")
_CASE = re.compile(
    r"\bcase\s+(?:V1)?LayerParameter_LayerType_(\w+)\s*:\s*\{?\s*return\s+(?:new\s+(\w+)\s*<|Get(\w+)\s*[<(])"
)


@dataclass(frozen=True)
class Source:
    """A layer type of a fork. file: with the class's methods, the first of ``files``; cuda: those in CUDA. line: of the
    registration, in ``registered``."""

    type: str
    class_name: str
    files: tuple[Path, ...]
    cuda: tuple[Path, ...]
    registered: Path
    line: int

    @property
    def file(self) -> Path:
        return (self.files or self.cuda or (self.registered,))[0]


@dataclass(eq=False)
class Tree:
    """A fork's sources. root: the folder with include/ and src/; proto: its caffe.proto, None in a folder that has only
    layers; core: whether the classes of Caffe that layers build on are there. generation: what the interface of its
    layers is like."""

    path: Path
    root: Path
    proto: Path | None
    core: bool
    generation: "Generation"
    files: Mapping[Path, str] = field(repr=False)

    @cached_property
    def _bodies(self) -> dict[tuple, str | None]:
        return {}

    @cached_property
    def types(self) -> dict[str, Source]:
        """Layer types by name; in a tree whose types are an enum, by the enum's value."""
        return {
            source.type: source
            for source in sorted(
                self._sources(), key=lambda source: source.registered.name == "layer_factory.cpp", reverse=True
            )
        }

    def _sources(self) -> Iterator[Source]:
        for path, text in self.files.items():
            if path.suffix not in (".cpp", ".cc", ".cu"):
                continue
            for match in _REGISTER.finditer(text):
                kind, name, second = match.groups()
                own = second if kind == "CLASS" and second else f"{name}Layer"
                yield self._source(name, own, path, text.count("\n", 0, match.start()) + 1)
            if path.stem.startswith("layer_factory"):
                for match in _CASE.finditer(text):
                    own = match[2] or match[3]
                    yield self._source(match[1], own, path, text.count("\n", 0, match.start()) + 1)

    def _source(self, name: str, class_name: str, path: Path, line: int) -> Source:
        defining = self.defining(class_name)
        cuda = tuple(each for each in defining if each.suffix == ".cu")
        files = sorted(
            (each for each in defining if each.suffix != ".cu"),
            key=lambda each: f"INSTANTIATE_CLASS({class_name})" not in self.files[each].replace(" ", ""),
        )
        return Source(name, class_name, tuple(files), cuda, path, line)

    def defining(self, class_name: str) -> tuple[Path, ...]:
        """The source files that define methods of a class."""
        return self.definitions.get(class_name, ())

    @cached_property
    def definitions(self) -> dict[str, tuple[Path, ...]]:
        """Source files by the name of what they define: classes with methods there, functions."""
        result: dict[str, list[Path]] = {}
        for path, text in self.files.items():
            if path.suffix in (".cpp", ".cc", ".cu"):
                for name in set(_defined(text)):
                    result.setdefault(name, []).append(path)
        return {name: tuple(paths) for name, paths in result.items()}

    def body(self, class_name: str, method: str, paths: Sequence[Path] | None = None) -> str | None:
        """The text between the braces of a method, in these files (None: all); None where there is none."""
        key = class_name, method, None if paths is None else tuple(paths)
        if key not in self._bodies:
            self._bodies[key] = self._body(class_name, method, paths)
        return self._bodies[key]

    def _body(self, class_name: str, method: str, paths: Sequence[Path] | None) -> str | None:
        head = re.compile(rf"\b{class_name}\s*<\s*\w+\s*>\s*::\s*{method}\s*\([^;{{]*\)\s*(?:const\s*)?\{{")
        for path in self.files if paths is None else paths:
            if match := head.search(self.files[path]):
                return _block(self.files[path], match.end() - 1)
        if paths is not None:
            return None
        inline = re.compile(rf"\bclass\s+{class_name}\b[^;{{]*\{{")
        for text in self.files.values():
            if match := inline.search(text):
                inside = _block(text, match.end() - 1)
                if found := re.search(rf"\b{method}\s*\([^;{{]*\)\s*(?:(?:const|override|final)\s*)*\{{", inside):
                    return _block(inside, found.end() - 1)
        return None

    def derives(self, class_name: str, base: str) -> bool:
        """Whether a class is another one or derives from it."""
        seen = set()
        while class_name and class_name not in seen:
            if class_name == base:
                return True
            seen.add(class_name)
            class_name = self._bases.get(class_name, "")
        return False

    def needs_bottoms(self, class_name: str) -> bool:
        """Whether a class or one that it derives from says that it needs a bottom."""
        seen = set()
        while class_name and class_name not in seen:
            bodies = (self.body(class_name, method) for method in ("ExactNumBottomBlobs", "MinBottomBlobs"))
            if any(body and re.search(r"\breturn\s+[1-9]", body) for body in bodies):
                return True
            seen.add(class_name)
            class_name = self._bases.get(class_name, "")
        return False

    @cached_property
    def _bases(self) -> dict[str, str]:
        pattern = re.compile(r"\bclass\s+(\w+)\s*(?:final\s*)?:\s*public\s+(?:\w+::)*(\w+)\s*<")
        return dict(pair for text in self.files.values() for pair in pattern.findall(text))

    def location(self, path: Path) -> str:
        """A file as messages name it: below the folder, or one that stands for a part of Caffe."""
        return path.relative_to(self.path).as_posix() if path.is_relative_to(self.path) else f"<{path.name}>"


@dataclass(frozen=True)
class Generation:
    """What a fork's layers are like. registry: types are registered, not cases of a switch; enum: types are values of
    an enum; shapes: blobs have any number of axes; returns_loss: losses have no top, forward returns them."""

    registry: bool
    enum: bool
    shapes: bool
    returns_loss: bool = False


def read(path: str | Path) -> Tree:
    """Reads the sources below a folder. Errors: CaffeliteError where it has no layers of Caffe."""
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise CaffeliteError(f"{path} is no folder", expected="the sources of a fork of Caffe")
    protos = sorted(
        (each for each in folder.rglob("caffe.proto") if not _skipped(each, folder)),
        key=lambda each: (len(each.parts), str(each)),
    )
    proto = next((each for each in protos if _root(each)), protos[0] if protos else None)
    root = (proto and _root(proto)) or folder
    files = {each: _stripped(each) for each in _files(root)}
    core = (
        all((root / "include/caffe" / f"{name}.hpp").is_file() for name in CORE)
        and (root / "src/caffe/blob.cpp").is_file()
    )
    headers = [text for each, text in files.items() if each.suffix != ".cpp" and each.is_relative_to(root / "include")]
    factory = any("LayerRegistry" in text for text in headers)
    text = proto.read_text(errors="replace") if proto else ""
    body = re.search(r"\bmessage\s+LayerParameter\s*\{(.*?)\n\}", text, re.DOTALL)
    enum = bool(body and re.search(r"\benum\s+LayerType\b", body[1]))
    shapes = any(re.search(r"Reshape\s*\(\s*const\s+(?:std::)?vector\s*<\s*int\s*>", each) for each in headers)
    layer = files.get(root / "include/caffe/layer.hpp", "")
    returns_loss = bool(re.search(r"\bDtype\s+Forward_cpu\s*\(", layer))
    tree = Tree(folder, root, proto, core, Generation(factory, enum, shapes, returns_loss), files)
    if not proto and not tree.types:
        expected = "a folder below which there is a caffe.proto, or files with REGISTER_LAYER_CLASS"
        raise CaffeliteError(f"{path} has no sources of a fork of Caffe", expected=expected)
    return tree


def _root(proto: Path) -> Path | None:
    return proto.parents[3] if proto.parts[-4:-1] == ("src", "caffe", "proto") else None


def _skipped(path: Path, root: Path) -> bool:
    return any(part.lower() in SKIPPED for part in path.relative_to(root).parts[:-1])


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.suffix in (".cpp", ".cc", ".cu", ".hpp", ".h", ".cuh") and not _skipped(path, root) and path.is_file():
            if path.suffix != ".cc" or not path.with_suffix(".cpp").is_file():  # Caffe builds *.cpp: the other is old
                yield path


def _stripped(path: Path) -> str:
    """The text without comments, with its lines."""
    text = path.read_text(encoding="latin-1")
    return _COMMENT.sub(lambda match: match[1] or "\n" * match[0].count("\n") or " ", text)


def _block(text: str, start: int) -> str:
    """What is between the brace at ``start`` and the one that closes it."""
    depth = 0
    for match in re.finditer(r"[{}]", text[start:]):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return text[start + 1 : start + match.start()]
    return text[start + 1 :]


def _defined(text: str) -> Iterator[str]:
    yield from re.findall(r"\bINSTANTIATE_CLASS\s*\(\s*(\w+)\s*\)", text)
    yield from re.findall(r"\b(\w+)\s*(?:<\s*\w+\s*>)?\s*::\s*~?\w+\s*\([^;{}]*\)\s*(?:const\s*)?(?::[^;{}]*)?\{", text)
    yield from re.findall(
        r"^[\w:<>*&,\s]*?\b(\w+)\s*(?:<[\w\s*,]*>)?\s*\([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*\)\s*(?:const\s*)?\{",
        text,
        re.MULTILINE,
    )
