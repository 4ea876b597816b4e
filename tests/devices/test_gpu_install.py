"""What the extras bring suffices: a machine with no CUDA toolkit and no GPU compiles every kernel, and loads every
library."""

import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from devices.host import libraries
from kernel_resources import ARCHITECTURES, FAMILIES, FORMULAS, kernels, sources

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
NETS = [
    ROOT / "models" / name / "train_val.prototxt" for name in ("resnet50", "googlenet", "lenet")
]  # whose formulas are compiled too
TOOL = ROOT / "tools" / "kernel_resources.py"
# "huge": kernels with long indices, for the architecture 80; those with short ones only among all cases.
RUNS = [*ARCHITECTURES, "huge"]
if not os.environ.get("CAFFELITE_ALL_CASES"):
    RUNS.remove("80")
NVIDIA = re.compile(r"(cupy|nvidia|cuda)[-_]", re.I)  # names of what CuPy may find headers and libraries in
HIDDEN = re.compile(
    r"^(CUDA|NVCC|CUPY|LD_LIBRARY_PATH|CONDA)"
)  # what may point CuPy to a toolkit outside the environment


def alone(*command) -> subprocess.CompletedProcess:
    """Runs Python of this environment where nothing points to CUDA on the machine."""
    environment = {name: value for name, value in os.environ.items() if not HIDDEN.match(name)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    return subprocess.run([sys.executable, *map(str, command)], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def extra() -> str:
    """The extra that this environment has."""
    names = {dist.name.lower() for dist in importlib.metadata.distributions()}
    actual = next((f"cuda{major}" for major in ("12", "13") if f"cupy-cuda{major}x" in names), None)
    return actual or libraries.lacking("neither the extra cuda12 nor cuda13 is installed")


def required(package: str, extras: frozenset[str], seen: set) -> set[str]:
    """The names of all distributions that a package with extras asks for, its own among them."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    name = canonicalize_name(package)
    if (name, extras) not in seen:
        seen.add((name, extras))
        for line in importlib.metadata.requires(package) or ():
            asked = Requirement(line)
            if asked.marker is None or any(asked.marker.evaluate({"extra": e}) for e in extras or {""}):
                required(asked.name, frozenset(asked.extras), seen)
    return {name for name, _ in seen}


def test_only_the_extra_brings_cuda(extra):
    """Else the other tests here would prove nothing."""
    actual = {re.sub("[-_.]+", "-", dist.name).lower() for dist in importlib.metadata.distributions()}
    wanted = required("caffelite", frozenset({extra}), set())
    assert not {name for name in actual if NVIDIA.match(name)} - wanted


@functools.cache
def runs() -> dict[str, subprocess.CompletedProcess]:
    """The tool's runs, by the names of RUNS."""
    words = {name: ("-arch", name, *(NETS if name == "90" else ())) for name in reversed(RUNS) if name != "huge"}
    words["huge"] = "-arch", "80", "-huge"
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(words, pool.map(lambda w: alone(TOOL, *w, "-json"), words.values()), strict=True))


@functools.cache
def reports() -> dict[str, dict]:
    """What the tool reports of each run's kernels."""
    for name, done in runs().items():
        assert done.returncode in (0, 1) and done.stdout, f"{name}: {done.stderr}"
    return {name: json.loads(done.stdout) for name, done in runs().items()}


@pytest.mark.parametrize("name", RUNS)
def test_kernels_compile_as_cupy_compiles(extra, name):
    """All of them, with the options that CuPy puts together; every header comes from the environment."""
    reported = reports()[name]
    arch = "80" if name == "huge" else name
    assert {f"-arch=sm_{arch}", "-std=c++17", "-ftz=true"} <= set(reported["options"])
    folders = [Path(option[2:]).resolve() for option in reported["options"] if option.startswith("-I")]
    assert folders and not [f for f in folders if not f.is_relative_to(Path(sys.prefix).resolve())]
    assert any((folder / "cuda_runtime.h").is_file() for folder in folders)
    actual = {(k["name"], k["numbers"]) for k in reported["kernels"]}
    written = {n for source in sources("float32", "float32") for n in re.findall(r"^KERNEL (\w+)\(", source, re.M)}
    assert len(written) > len(FAMILIES) + FORMULAS / 2
    assert actual >= {(n, numbers) for n in written for numbers in ARCHITECTURES[arch]}


@pytest.mark.parametrize("name", RUNS)
def test_no_kernel_spills(extra, name):
    spilling = [k for k in reports()[name]["kernels"] if k["spilled"]]
    assert not spilling
    assert all(k["registers"] * 256 <= 65536 and k["shared"] <= 49152 for k in reports()[name]["kernels"])


def test_a_mistake_is_found(extra):
    code = "from kernel_resources import Compiler; Compiler()('__global__ void f() { nowhere(); }', '90')"
    done = alone("-c", f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); {code}")
    assert done.returncode == 1 and "nowhere" in done.stderr


SPILLING = """ptxas info    : Compiling entry function 'f' for 'sm_75'
ptxas info    : Function properties for f
ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 257 bytes smem, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'g' for 'sm_75'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


def test_a_report_of_ptxas():
    assert kernels(SPILLING, "fp32") == [("f", "fp32", "75", 255, 28, 8, 257), ("g", "fp32", "75", 8, 0, 0, 0)]


LOADS = """
import ctypes, json, sys
sys.path[:0] = [ROOT + "/tests", ROOT]
from devices.host import libraries
libraries.driver()
import cupy
from cupy_backends.cuda.libs import cublas, nvrtc
nvrtc.getVersion()
ctypes.CDLL(f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}")
from cupy.cuda import nccl
assert nccl.available
from caffelite.devices.cuda import cudnn
assert cudnn.version()
print(json.dumps([line.split()[-1] for line in open("/proc/self/maps") if "/" in line]))
"""


def test_libraries_come_from_the_extra(extra):
    """cuBLAS, NVRTC, cuDNN and NCCL are found as the GPU's backend finds them, none of them outside the environment."""
    done = alone("-c", f"ROOT = {str(ROOT)!r}\n{LOADS}")
    assert done.returncode == 0, done.stderr
    mapped = {Path(line) for line in json.loads(done.stdout.splitlines()[-1])}
    for library in ("cublas", "nvrtc", "cudnn", "nccl"):
        places = [path for path in mapped if re.match(rf"lib{library}\.so", path.name)]
        assert places and all(path.is_relative_to(Path(sys.prefix).resolve()) for path in places), (library, places)
