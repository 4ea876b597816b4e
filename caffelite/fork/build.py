"""Compiles layers of a fork, and what they need of it, into a shared library."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .. import stored
from ..errors import CaffeliteError
from ..system import cache_folder, usable_cores
from . import cuda_source, messages, salvage, tree as trees
from .tree import Source, Tree

CPP = Path(__file__).parent / "cpp"
FLAGS = ("-std=gnu++17", "-O2", "-fPIC", "-fpermissive", "-w", "-DNDEBUG")
# Libraries that Caffe includes, and the header of ours that stands for each
SHIMS = (
    ("google/protobuf/", "protobuf"),
    ("glog/", "glog"),
    ("gflags/", "gflags"),
    ("boost/", "boost"),
    ("cblas", "cblas"),
    ("mkl", "cblas"),
    ("hdf5", "files"),
    ("opencv", "files"),
    ("leveldb/", "files"),
    ("lmdb", "files"),
    ("gtest/", "files"),
    ("cuda", "cuda"),
    ("cublas", "cuda"),
    ("curand", "cuda"),
    ("cufft", "cuda"),
    ("cusparse", "cuda"),
    ("cuComplex", "cuda"),
    ("driver_types", "cuda"),
    ("device_launch_parameters", "cuda"),
    ("math_functions.h", "cuda"),
    ("device_functions", "cuda"),
    ("thrust/", "thrust"),
)
CORE = CPP / "core"
ALWAYS = (
    "src/caffe/blob.cpp",
    "src/caffe/common.cpp",
    "src/caffe/syncedmem.cpp",
    "src/caffe/layer.cpp",
    "src/caffe/layer_factory.cpp",
    "src/caffe/util/math_functions.cpp",
)
# With the passes, without which a layer is of no use
METHODS = tuple("LayerSetUp SetUp Reshape Forward_cpu Forward_gpu Backward_cpu Backward_gpu".split())
HEADERS = (".hpp", ".h", ".cuh")
_GPU_MATH = (
    "caffe::caffe_gpu_"  # functions on memory of the device, which some layers call where others call those of the CPU
)
# The modules that decide what is compiled and how
BUILDERS = ("build.py", "tree.py", "messages.py", "cuda_source.py", "salvage.py")
SALVAGES = 8  # attempts to compile a file without what does not compile
_COMPILE_ERROR = {"file": str, "line": int, "cause": str}  # in the cache
_ERROR = re.compile(r"^(.+?):(\d+)(?::\d+)?:\s*(?:fatal )?error:\s*(.*)$", re.MULTILINE)
Progress = Callable[[str], None]


@dataclass(frozen=True)
class CompileError:
    """Why a file does not compile: the compiler's first error. line: 0 where it is not known."""

    file: str
    line: int
    cause: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.cause}" if self.line else f"{self.file}: {self.cause}"


@cache
def compiler() -> str:
    """The C++ compiler: $CXX, else g++ or clang++. Errors: there is none."""
    chosen = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not chosen or not shutil.which(chosen):
        what = "the layers of a fork need a C++ compiler" if not chosen else f"there is no compiler {chosen}"
        raise CaffeliteError(what, remedy="install one, such as Debian's package g++ or conda's gxx, or name it in CXX")
    return chosen


@cache
def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout


def runs_as_gpu(tree: Tree, source: Source, method: str) -> bool:
    """Whether the method ("Forward", "Backward") is computed by the layer's CUDA source: the one for CPUs is not
    implemented, or empty where that one is not."""
    own, gpu = tree.body(source.class_name, f"{method}_cpu"), tree.body(source.class_name, f"{method}_gpu", source.cuda)
    return _absent(own) and not _absent(gpu) if gpu is not None else False


def _absent(body: str | None) -> bool:
    return body is not None and (
        not body.strip() or bool(re.match(r"\s*(NOT_IMPLEMENTED\b|LOG\s*\(\s*FATAL\s*\)|NO_GPU\b)", body))
    )


def has_silent_forward(tree: Tree, source: Source) -> bool:
    """Whether Forward_cpu is empty and nothing else computes the tops: neither is the function for GPUs empty too, nor
    do the tops have the memory of bottoms."""
    body, gpu = (tree.body(source.class_name, f"Forward_{device}") for device in ("cpu", "gpu"))
    shared = any("Share" in (tree.body(source.class_name, name) or "") for name in ("Reshape", "LayerSetUp"))
    return body is not None and not body.strip() and gpu is None and not shared


@dataclass(eq=False)
class Build:
    """Compiling in one tree. descriptors: the serialized FileDescriptorSet of its schema. ``errors``: of files that did
    not compile."""

    tree: Tree
    descriptors: bytes
    progress: Progress
    errors: dict[Path, CompileError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cxx = compiler()
        self.folder = cache_folder() / "fork" / self._key()
        self.include = self.folder / "include"
        self.base = self.tree.root if self.tree.core else CORE
        self._layers = {path for source in self.tree.types.values() for path in source.files}
        self._complete_headers()

    def _key(self) -> str:
        digest = hashlib.sha256(self.descriptors)
        for path in sorted(CPP.rglob("*")):
            if path.is_file():
                digest.update(path.read_bytes())
        for name in BUILDERS:
            digest.update(Path(__file__).with_name(name).read_bytes())
        for text in (self.cxx, _version(self.cxx), *FLAGS, str(self.tree.root), repr(self.tree.generation.registry)):
            digest.update(text.encode())
        for path, text in self.tree.files.items():
            if path.suffix in HEADERS:
                digest.update(f"{self.tree.location(path)}\0{text}\0".encode("latin-1", "replace"))
        return digest.hexdigest()[:20]

    # Headers

    def _complete_headers(self) -> None:
        """Writes the headers that stand for libraries, the message classes and the prelude, which it compiles."""
        if (self.folder / "complete").exists():
            return
        for name, text in self._headers():
            path = self.include / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, text)
        self.progress("compiling the headers of the fork")
        if "clang" not in _version(self.cxx):  # whose precompiled headers are another option
            error = self._compile(
                self.include / "fork_prelude.hpp", self.include / "fork_prelude.hpp.gch", ("-x", "c++-header")
            )
            if error:
                raise self._failure("the headers of the fork do not compile", error)
        _write(self.folder / "complete", "")

    def _headers(self) -> Iterator[tuple[str, str]]:
        header, code = messages.sources(self.descriptors)
        yield "caffe/proto/caffe.pb.h", header
        yield "caffe/proto/caffe.pb.cc", code
        own_core = {f"caffe/{name}.hpp" for name in trees.CORE}
        headers = {path.name: path for path in self.tree.files if path.suffix in HEADERS}
        yield from self._launching_headers()
        pretty = '#include "caffe/proto/caffe.pb.h"\nnamespace caffe { class NetParameterPrettyPrint; }\n'
        yield "caffe/proto/caffe_pretty_print.pb.h", pretty
        texts = [*self.tree.files.values(), *(path.read_text() for path in sorted(CORE.rglob("*.?pp")))]
        for name in sorted({name for text in texts for name in re.findall(r'#\s*include\s*[<"]([^>"]+)[>"]', text)}):
            shim = next((shim for start, shim in SHIMS if name.startswith(start)), None)
            if any((folder / name).exists() for folder in self._folders()[:2]) or name in own_core:
                continue
            if shim:
                yield name, f'#include "shim/{shim}.hpp"\n'
            elif elsewhere := headers.get(Path(name).name):  # a folder of layers that are to be copied into Caffe's
                yield name, f'#include "{elsewhere}"\n'
        own = [
            name
            for name in ("common", "blob", "layer", "layer_factory")
            if (self.base / f"include/caffe/{name}.hpp").exists()
        ]
        lines = [
            f'#include "shim/{name}.hpp"' for name in ("glog", "gflags", "boost", "protobuf", "cblas", "files", "cuda")
        ]
        lines += [f'#include "caffe/{name}.hpp"' for name in own]
        registry = ["#define FORK_REGISTRY"] if self.tree.generation.registry or not self.tree.core else []
        missing = 'extern "C" [[noreturn]] void fork_missing(const char* name);'
        yield "fork_prelude.hpp", "\n".join(["#pragma once", *registry, *lines, missing, ""])

    def _launching_headers(self) -> Iterator[tuple[str, str]]:
        """The fork's headers with launches of kernels, in macros or templates, as C++."""
        include = self.tree.root / "include"
        for path, text in self.tree.files.items():
            if path.suffix in HEADERS and cuda_source.launches(text) and path.is_relative_to(include):
                with contextlib.suppress(cuda_source.Cooperative):
                    name = path.relative_to(include).as_posix()
                    yield name, f'#line 1 "{path}"\n{cuda_source.rewritten(text)}'

    def _flags(self) -> list[str]:
        unique = ["-fno-gnu-unique"] if "clang" not in _version(self.cxx) else []
        folders = (self.include, CPP / "include", *self._folders())
        return [*FLAGS, *unique, *(f"-I{folder}" for folder in folders)]

    def _folders(self) -> list[Path]:
        """Where the sources' headers are."""
        return [self.tree.root / "include", self.tree.root / "src", *([] if self.tree.core else [CORE / "include"])]

    # Objects

    def _compile(self, source: Path, target: Path, options: Sequence[str] = ()) -> CompileError | None:
        messages_of_compiler = self._messages(source, target, options)
        return None if messages_of_compiler is None else _first_error(messages_of_compiler, source, self.tree)

    def _messages(self, source: Path, target: Path, options: Sequence[str]) -> str | None:
        """What the compiler says of a source that it cannot compile; None where it could."""
        draft = target.with_name(f"{target.name}.{os.getpid()}.draft")
        command = [self.cxx, *self._flags(), *options, "-c", str(source), "-o", str(draft)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
        )
        if done.returncode == 0:
            os.replace(draft, target)
            return None
        return done.stderr

    def _salvage(self, source: Path, target: Path) -> bool:
        """Compiles a file of which some functions do not compile, without these."""
        text: str | None = self.tree.files[source]
        prelude = ""
        if source.suffix == ".cu":
            text, prelude = cuda_source.rewritten(self.tree.files[source]), '#include "shim/cuda_source.hpp"\n'
        copy = target.with_suffix(".cpp")
        for _ in range(SALVAGES):
            _write(copy, f'{prelude}#line 1 "{source}"\n{text}')
            said = self._messages(copy, target, ["-include", "fork_prelude.hpp", f"-I{source.parent}"])
            if said is None:
                return True
            mistakes = {int(m[2]): m[3] for m in reversed(list(_ERROR.finditer(said))) if m[1] == str(source)}
            needed = METHODS if source in self._layers else ()
            text = salvage.without(text, mistakes, self.tree.location(source), needed) if text and mistakes else None
            if text is None:
                break
        return False

    def object(self, source: Path) -> Path | CompileError:
        """The object of a source file. It is compiled unless the cache has it."""
        text = source.read_bytes()
        digest = hashlib.sha256(str(source).encode() + text).hexdigest()[:12]
        target = self.folder / f"{source.stem}-{digest}{'-cu' if source.suffix == '.cu' else ''}.o"
        failed = target.with_suffix(".error")
        if target.exists():
            return target
        before = stored.read(failed, _COMPILE_ERROR)
        if before.keys() == _COMPILE_ERROR.keys():
            return CompileError(**before)
        self.progress(f"compiling {self.tree.location(source)}")
        options = ["-include", "fork_prelude.hpp"]
        if source in (CPP / "driver.cpp", CPP / "net.cpp"):
            options = ["-fno-access-control"]
        elif source.parent == CPP or source.suffix == ".cc" and source.is_relative_to(self.include):
            options = []
        try:
            error = (
                self._compile_cuda(source, target) if source.suffix == ".cu" else self._compile(source, target, options)
            )
        except cuda_source.Cooperative as mistake:
            cause = f"{mistake.what}: threads that work together cannot run on a CPU"
            error = CompileError(self.tree.location(source), mistake.line or 0, cause)
        else:
            if error and source in self.tree.files:
                error = None if self._salvage(source, target) else error
        if error is None:
            return target
        _write(failed, json.dumps(error.__dict__))
        return error

    def _compile_cuda(self, source: Path, target: Path) -> CompileError | None:
        text = cuda_source.rewritten(self.tree.files[source])
        copy = target.with_suffix(".cpp")
        _write(copy, f'#include "shim/cuda_source.hpp"\n#line 1 "{source}"\n{text}')
        return self._compile(copy, target, ["-include", "fork_prelude.hpp", f"-I{source.parent}"])

    # Libraries

    def compile_ahead(self, types: Iterable[str]) -> None:
        """Compiles the files of types side by side, whose libraries will be asked for. Mistakes are reported then."""
        sources = [self.tree.types[name] for name in types if name in self.tree.types]
        paths = dict.fromkeys([*self._core(), *(path for source in sources for path in self._files(source))])
        with ThreadPoolExecutor(len(usable_cores())) as pool:
            list(pool.map(self.object, paths))

    def library(self, types: Sequence[str]) -> Path:
        """The shared library with these types; compiled where the cache has none of the same sources. Errors: there is
        no such type; a file that one needs does not compile."""
        return self._library(types, self.closure([self._known(name) for name in types]))

    def net_library(self, types: Sequence[str], solver: str | None) -> Path:
        """The shared library with these types, the fork's Net, and its solver of this name. Errors: as of ``library``;
        the fork has no Net."""
        files = [path for path, text in self.tree.files.items() if f"REGISTER_SOLVER_CLASS({solver})" in text]
        for name in ("Net", *([] if solver is None else ["Solver"])):
            defining = [path for path in self.tree.defining(name) if path.suffix != ".cu"]
            if not defining:
                what = f"{self.tree.path} has no source of caffe::{name}"
                raise CaffeliteError(what, remedy="compare its layers: -compare -types")
            files += defining
        return self._library(types, self.closure([self._known(name) for name in types], "net.cpp", files))

    def _library(self, types: Sequence[str], objects: dict[Path, Path]) -> Path:
        names = sorted(path.name for path in objects.values())
        target = self.folder / f"lib{hashlib.sha256(repr((sorted(types), names)).encode()).hexdigest()[:12]}.so"
        if not target.exists():
            self._link(list(objects.values()), target)
        return target

    def _known(self, name: str) -> Source:
        if name not in self.tree.types:
            raise CaffeliteError(f'{self.tree.path} has no layer type "{name}"')
        return self.tree.types[name]

    def closure(
        self, wanted: Sequence[Source], driver: str = "driver.cpp", files: Iterable[Path] = ()
    ) -> dict[Path, Path]:
        """Objects by source: the core, the types, more files, and what undefined symbols and the names of types
        name. driver: the source of the functions by which the library is called."""
        objects: dict[Path, Path] = {}
        core = self._core(driver)
        needed = {*files, *(path for source in wanted for path in self._files(source))}
        factory = {path for path in core if path.name == "layer_factory.cpp"}
        pending = dict.fromkeys([*core, *sorted(needed)])
        cuda = any(path.suffix == ".cu" for path in needed)
        while pending:
            self._compile_all(pending, objects, required={*core, *needed})
            symbols = _Symbols({path: made for path, made in objects.items() if path not in factory}, objects)
            named = {
                file for name in self._types_made(objects.keys() - factory - set(core)) for file in self._files(name)
            }
            called = set(_Symbols(needed - set(core), objects).undefined)
            more = named | {
                path
                for symbol in symbols.undefined
                for path in self._naming(symbol, cuda or symbol in called and _GPU_MATH in symbol)
            }
            pending = dict.fromkeys(sorted(more - objects.keys() - self.errors.keys()))
        return objects

    def _core(self, driver: str = "driver.cpp") -> list[Path]:
        """What every library has: caffelite's own part and the classes that layers build on."""
        own = [CPP / name for name in (driver, "message.cpp", "blas.cpp")]
        base = [self.base / name for name in ALWAYS if (self.base / name).exists()]
        return [*own, self.include / "caffe/proto/caffe.pb.cc", *base]

    def _files(self, source: Source) -> list[Path]:
        """The files of a type; its CUDA source where that computes what the other does not."""
        gpu = any(runs_as_gpu(self.tree, source, method) for method in ("Forward", "Backward"))
        files = [*source.files, *(source.cuda if gpu or not source.files else ())]
        return list(dict.fromkeys([*files, *([source.registered] if source.registered.suffix != ".cu" or gpu else [])]))

    def _types_made(self, paths: Iterable[Path]) -> Iterator[Source]:
        """The types that layers of these files make by name."""
        for path in paths:
            for name in re.findall(r'\bset_type\s*\(\s*"(\w+)"\s*\)', self.tree.files.get(path, "")):
                if name in self.tree.types:
                    yield self.tree.types[name]

    def _naming(self, symbol: str, cuda: bool) -> Iterable[Path]:
        """The files that may define a demangled symbol."""
        name = re.sub(r"\(.*", "", symbol.replace("(anonymous namespace)", ""))
        if not cuda and re.search(r"_gpu|Forward_gpu|cublas|curand|cudnn", name):
            return []
        words = [
            word
            for word in re.findall(r"\w+", re.sub(r"<.*?>", " ", name))
            if word
            not in (
                "caffe",
                "vtable",
                "typeinfo",
                "for",
                "void",
                "float",
                "double",
                "int",
                "std",
                "bool",
                "google",
                "protobuf",
                "char",
                "const",
                "unsigned",
            )
        ]
        paths: list[Path] = []
        for word in words[:3]:
            paths = [path for path in self.tree.definitions.get(word, ()) if cuda or path.suffix != ".cu"]
            if paths:
                break
        method = words[1] if len(words) > 1 else ""
        precise = [path for path in paths if method and re.search(rf"::\s*~?{method}\s*\(", self.tree.files[path])]
        return precise or paths[:2]

    def _compile_all(self, paths: Iterable[Path], objects: dict[Path, Path], required: set[Path]) -> None:
        with ThreadPoolExecutor(len(usable_cores())) as pool:
            for path, made in zip(paths, pool.map(self.object, paths), strict=True):
                if isinstance(made, Path):
                    objects[path] = made
                elif path in required and path.name != "layer_factory.cpp":
                    raise self._failure(f"{self.tree.location(path)} of the fork does not compile", made)
                else:
                    self.errors[path] = made

    def _failure(self, what: str, error: CompileError) -> CaffeliteError:
        return CaffeliteError(what, found=str(error))

    def _link(self, objects: Sequence[Path], target: Path) -> None:
        undefined = _Symbols(dict.fromkeys(objects), {path: path for path in objects})
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            stubs, names = Path(folder, "stubs.cpp"), Path(folder, "names.map")
            stubs.write_text(_stub_code(undefined.mangled))
            names.write_text("{ global: fork_*; local: *; };\n")
            stub = Path(folder, "stubs.o")
            if error := self._compile(stubs, stub):
                raise self._failure("the library of the fork's layers cannot be linked", error)
            draft = Path(folder, "draft.so")
            command = [
                self.cxx,
                "-shared",
                "-o",
                str(draft),
                *map(str, objects),
                str(stub),
                "-Wl,-Bsymbolic",
                f"-Wl,--version-script={names}",
            ]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if done.returncode:
                cause = next(
                    (line for line in done.stderr.splitlines() if "error" in line or "multiple" in line),
                    done.stderr[:300],
                )
                raise CaffeliteError("the library of the fork's layers cannot be linked", found=cause.strip())
            os.replace(draft, target)


class _Symbols:
    """Symbols that objects need and none defines. asking: the objects whose needs count; all: those that define.
    ``mangled``: as the linker has them, with the readable name; ``undefined``: the readable ones."""

    def __init__(self, asking: Iterable, every: dict):
        defined: set[str] = set()
        wanted: set[str] = set()
        for path, made in every.items():
            own, needs = _symbols(made)
            defined |= own
            if path in asking:
                wanted |= needs
        missing = sorted(name for name in wanted - defined if name.startswith("_Z"))
        readable = subprocess.run(
            ["c++filt"], input="\n".join(missing), capture_output=True, text=True, check=True
        ).stdout.splitlines()
        self.mangled = {name: text for name, text in zip(missing, readable, strict=True) if _of_tree(text)}
        self.undefined = list(self.mangled.values())


def _of_tree(name: str) -> bool:
    """Whether the library must define it: what the standard library defines is found in it."""
    return (
        not re.match(
            r"(?:(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for )?(?:std::|__cxxabiv1|__gnu_cxx|operator )",
            name,
        )
        and "std::__cxx11::basic_" not in name.split("(")[0].split("caffe::")[0]
    )


@cache
def _symbols(made: Path) -> tuple[frozenset[str], frozenset[str]]:
    lines = subprocess.run(["nm", "-P", str(made)], capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [line.split()[:2] for line in lines if len(line.split()) > 1]
    return frozenset(name for name, kind in pairs if kind not in "Uw"), frozenset(
        name for name, kind in pairs if kind == "U"
    )


def _stub_code(symbols: dict[str, str]) -> str:
    """Functions that stand for what is not compiled, and throw its name."""
    lines = ['extern "C" [[noreturn]] void fork_missing(const char* name);']
    for number, (name, text) in enumerate(symbols.items()):
        lines.append(f'void stub{number}() __asm__("{name}");')
        lines.append(f'void stub{number}() {{ fork_missing("{text}, which is not compiled"); }}')
    return "\n".join(lines)


def _first_error(text: str, source: Path, tree: Tree) -> CompileError:
    match = _ERROR.search(text)
    if not match:
        return CompileError(tree.location(source), 0, text.strip()[-300:] or "the compiler failed without a message")
    return CompileError(tree.location(Path(match[1])), int(match[2]), match[3])


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_text(text, encoding="latin-1" if path.suffix == ".cpp" else "utf-8")
    os.replace(draft, path)
