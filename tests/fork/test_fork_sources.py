"""What is read of a fork's sources, without compiling them."""

import contextlib
import random as seeds
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from caffelite.errors import CaffeliteError
from caffelite.fork import build, cuda_source, messages, salvage, schema, tree
from caffelite.fork.data import reads_data
from caffelite.fork.layer import layer_class

FORK = Path(__file__).parent / "small_fork"
LAYER = """
template <typename Dtype>
void OneLayer<Dtype>::Forward_cpu(const vector<Blob<Dtype>*>& bottom, vector<Blob<Dtype>*>* top) { %s }
template <typename Dtype>
void OneLayer<Dtype>::Backward_cpu(const vector<Blob<Dtype>*>& top, const bool b, vector<Blob<Dtype>*>* bottom) { %s }
"""


def make(folder, **files):
    for name, text in files.items():
        path = folder / "src/caffe" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tree.read(folder)


def test_a_tree_has_its_types_with_their_files():
    small = tree.read(FORK)
    assert {"Bend", "Wave", "HuberLoss", "Limit"} <= set(small.types)
    bend, wave, limit = (small.types[name] for name in ("Bend", "Wave", "Limit"))
    assert small.location(bend.file) == "src/caffe/layers/bend_layer.cpp" and not bend.cuda
    assert [small.location(path) for path in wave.cuda] == ["src/caffe/layers/wave_layer.cu"]
    assert small.location(limit.file) == "src/caffe/layers/faulty_layers.cpp" and limit.line > 30
    assert small.derives("HuberLossLayer", "LossLayer") and not small.derives("BendLayer", "LossLayer")
    assert not small.core and small.proto == FORK / "src/caffe/proto/caffe.proto"


def test_classes_of_2018_are_read(tmp_path):
    """Those that are final, with inline methods that override."""
    text = """
template <typename Dtype> class OneLayer final : public LossLayer<Dtype> {
  void Forward_cpu(const Blobs& bottom, const Blobs& top) override {}
  int ExactNumBottomBlobs() const override { return 1; } };
REGISTER_LAYER_CLASS(One);
"""
    read = make(tmp_path, layers__one_DOT_cpp=text)
    assert read.derives("OneLayer", "LossLayer") and read.body("OneLayer", "ExactNumBottomBlobs") == " return 1; "
    assert build.has_silent_forward(read, read.types["One"])


@pytest.mark.parametrize(("bottoms", "reads"), [(0, True), (1, False)])
def test_a_layer_named_data_that_needs_a_bottom_computes(tmp_path, bottoms, reads):
    """Itself or by its base, as the ConvolutionData of forks that train in several processes."""
    text = """
template <typename Dtype> class OneDataLayer : public Layer<Dtype> {
  virtual inline int ExactNumBottomBlobs() const { return %d; } };
template <typename Dtype> class TwoDataLayer : public OneDataLayer<Dtype> {};
"""
    read = make(tmp_path, layers__one_DOT_cpp=text % bottoms + "REGISTER_LAYER_CLASS(OneData);")
    assert [reads_data(read, f"{name}DataLayer") for name in ("One", "Two")] == [reads, reads]


def test_types_of_a_switch_are_values_of_an_enum(tmp_path):
    switch = """
switch (type) {
  case LayerParameter_LayerType_ONE:
    return new OneLayer<Dtype>(param);
  // case LayerParameter_LayerType_TWO: return new TwoLayer<Dtype>(param);
  case LayerParameter_LayerType_THREE: return GetThreeLayer<Dtype>(name, param); }
"""
    read = make(tmp_path, layer_factory_DOT_cpp=switch, layers__one_DOT_cpp=LAYER % ("y = x;", ""))
    assert set(read.types) == {"ONE", "THREE"} and read.types["ONE"].line == 3
    assert read.location(read.types["ONE"].file) == "src/caffe/layers/one.cpp"


def test_a_folder_without_layers_is_named(tmp_path):
    with pytest.raises(CaffeliteError, match="has no sources of a fork of Caffe; expected a folder"):
        tree.read(tmp_path)


GPU = LAYER.replace("cpu", "gpu") % ("launch();", "launch();")


@pytest.mark.parametrize(
    "forward, cuda, runs, silent",
    [
        ("NOT_IMPLEMENTED;", GPU, True, False),
        ("LOG(FATAL) << 1;", GPU, True, False),
        ("/* later */", GPU, True, False),
        ("y = x;", GPU, False, False),
        ("/* nothing */", "", False, True),
        ("NOT_IMPLEMENTED;", "", False, False),
    ],
)
def test_what_a_gpu_alone_computes_is_seen(tmp_path, forward, cuda, runs, silent):
    files = {"one_DOT_cpp": LAYER % (forward, "") + "REGISTER_LAYER_CLASS(One);"} | (
        {"one_DOT_cu": cuda} if cuda else {}
    )
    read = make(tmp_path, **files)
    source = read.types["One"]
    assert build.runs_as_gpu(read, source, "Forward") is runs
    assert build.has_silent_forward(read, source) is silent


def test_launches_with_spaces_are_rewritten():
    assert cuda_source.rewritten("k<T> << <g, b >> >(x);") == cuda_source.rewritten("k<T><<<g, b>>>(x);")


def test_launches_become_loops():
    text = "a<float><<<grid(n, 2), 4>>>(n,\n  f(x), y);\nb<<<1, 2>>>();\nc << d >> e;"
    made = cuda_source.rewritten(text)
    assert "::shim::launch(grid(n, 2), 4, [&](auto... fork_arguments) { a<float>(fork_arguments...); }, n," in made
    assert "{ b(fork_arguments...); });" in made and made.count("\n") == text.count("\n") and "c << d >> e;" in made


def test_launches_in_macros_of_headers_become_loops(tmp_path):
    """As math_functions.hpp of Caffe defines its functions for GPUs."""
    macro = "#define UNARY(name) \\\n  name##_kernel<Dtype><<<GET(n), 512>>>( \\\n    n, x);"
    made = cuda_source.rewritten(macro)
    call = "::shim::launch(GET(n), 512, [&](auto... fork_arguments) { name##_kernel<Dtype>(fork_arguments...); }"
    assert call in made and made.count("\\\n") == 2


@pytest.mark.parametrize("word", ["__shared__ float x[2];", "__syncthreads();", "y = __shfl_down(x, 1);"])
def test_threads_that_work_together_are_refused(word):
    with pytest.raises(cuda_source.Cooperative) as caught:
        cuda_source.rewritten(f"int a;\n{word}")
    assert caught.value.line == 2 and caught.value.what in word


def test_names_of_messages_are_protobufs():
    header, code = messages.sources(schema.read(FORK / "src/caffe/proto/caffe.proto").descriptor_set)
    for line in (
        "enum HuberLossParameter_Mean : int { HuberLossParameter_Mean_BATCH = 0, HuberLossParameter_Mean_ALL = 1 };",
        "static constexpr HuberLossParameter_Mean ALL = HuberLossParameter_Mean_ALL;",
        "const HuberLossParameter& huber_loss_param() const",
        "float delta() const",
        "static constexpr int kNumOutputFieldNumber = 1;",
        "delta_cell_{float(0.5)};",
        "void add_channels(google::protobuf::int32 value)",
    ):
        assert line in header, line
    assert "class BlobProto;" in header and "float HuberLoss" not in code
    assert messages.accessor("Operator") == "operator_" and messages.accessor("K") == "k"


@pytest.mark.parametrize("name", build.BUILDERS)
def test_a_changed_builder_makes_the_cache_stale(monkeypatch, name):
    """What an older version has compiled is not taken."""
    made = SimpleNamespace(descriptors=b"", cxx="g++", tree=tree.read(FORK))
    before, read = build.Build._key(made), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path.name == name))
    assert build.Build._key(made) != before


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    build.compiler.cache_clear()
    try:
        with pytest.raises(CaffeliteError, match="no compiler no-such-compiler.*install one"):
            build.Build(tree.read(FORK), b"", print)
    finally:
        build.compiler.cache_clear()


@pytest.mark.slow
def test_messages_are_read_and_written_byte_for_byte(tmp_path):
    """By the C++ classes, of what Python's protobuf wrote."""
    shape = "message Deep { optional Deep more = 1; repeated sint64 z = 2 [packed = true]; optional fixed32 f = 3; }"
    text = FORK.joinpath("src/caffe/proto/caffe.proto").read_text() + shape
    (tmp_path / "caffe.proto").write_text(text)
    read = schema.read(tmp_path / "caffe.proto")
    header, code = messages.sources(read.descriptor_set)
    (tmp_path / "caffe/proto").mkdir(parents=True)
    (tmp_path / "caffe/proto/caffe.pb.h").write_text(header)
    (tmp_path / "caffe.pb.cc").write_text(code)
    main = """#include "caffe/proto/caffe.pb.h"
int main() {
  std::string bytes((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  caffe::LayerParameter layer;
  caffe::Deep deep;
  layer.ParseFromString(bytes.substr(0, bytes.find("|||")));
  deep.ParseFromString(bytes.substr(bytes.find("|||") + 3));
  if (layer.bend_param().slope() != 3 || deep.more().z(1) != -300 || deep.f() != 7 || layer.has_wave_param()) return 1;
  if (layer.huber_loss_param().delta() != 0.5f || layer.blobs(0).data(1) != 2.5f) return 2;
  caffe::LayerParameter copy(layer);
  copy.set_type("Other");
  std::cout << layer.SerializeAsString() << "|||" << deep.SerializeAsString() << "|||" << copy.type() << layer.type();
}"""
    (tmp_path / "main.cpp").write_text(main)
    folders = [f"-I{tmp_path}", f"-I{build.CPP / 'include'}"]
    files = [str(tmp_path / "main.cpp"), str(tmp_path / "caffe.pb.cc"), str(build.CPP / "message.cpp")]
    files = [f"-include{build.CPP / 'include/shim/protobuf.hpp'}", "-I" + str(build.CPP / "include/shim"), *files]
    subprocess.run([build.compiler(), "-std=gnu++17", "-w", *folders, *files, "-o", tmp_path / "main"], check=True)
    layer = read.message_class("LayerParameter")(name="a", type="T", bottom=["x", "y"], loss_weight=[0.5])
    layer.bend_param.slope = 3
    layer.limit_param.channels.extend([-1, 1 << 20])
    layer.blobs.add(data=[1, 2.5, -3])
    deep = read.message_class("Deep")(f=7)
    deep.more.z.extend([1, -300])
    done = subprocess.run(
        [tmp_path / "main"], input=b"|||".join(m.SerializeToString() for m in (layer, deep)), stdout=-1
    )
    assert done.returncode == 0
    first, second, kinds = done.stdout.split(b"|||")
    assert type(layer).FromString(first) == layer and type(deep).FromString(second) == deep and kinds == b"OtherT"
    assert shutil.which("nm")


MUTATIONS = (
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "<<<",
    ">>>",
    '"',
    "/*",
    "*/",
    "//",
    "\n",
    " " * 300,
    "class A : public B<",
    "\0",
)


def mutated(text, random):
    """A text with a piece cut, doubled or moved, or with something put in."""
    start, end = sorted(random.randrange(len(text) + 1) for _ in range(2))
    piece = text[start : min(end, start + 400)]
    kinds = (text[:start] + text[end:], text[:end] + piece + text[end:], text[:start] + random.choice(MUTATIONS) * 3)
    return random.choice((*kinds, text[:start] + random.choice(MUTATIONS) + text[start:]))


@pytest.mark.slow
def test_damaged_sources_are_read_or_reported(tmp_path):
    """What is read of sources and written for the compiler takes a moment, whatever the text."""
    random = seeds.Random(7)
    folder = tmp_path / "fork"
    shutil.copytree(FORK, folder)
    files = [path for path in sorted(folder.rglob("*.[ch]*")) if path.is_file()]
    for _ in range(200):
        path = random.choice(files)
        text = path.read_text()
        path.write_text(mutated(text, random))
        try:
            read = tree.read(folder)
            for source in read.types.values():
                build.has_silent_forward(read, source)
                build.runs_as_gpu(read, source, "Backward")
            for file in read.files:
                if file.suffix == ".cu":
                    with contextlib.suppress(cuda_source.Cooperative):
                        cuda_source.rewritten(read.files[file])
        finally:
            path.write_text(text)


def test_a_top_with_the_memory_of_a_bottom_needs_no_forward(tmp_path):
    reshape = """
template <typename Dtype>
void OneLayer<Dtype>::Reshape(const vector<Blob<Dtype>*>& bottom, const vector<Blob<Dtype>*>& top) {
  top[0]->ShareData(*bottom[0]);
}"""
    read = make(tmp_path, one_DOT_cpp=LAYER % ("", "") + reshape + "REGISTER_LAYER_CLASS(One);")
    assert not build.has_silent_forward(read, read.types["One"])


SALVAGED = """#include <armadillo>
namespace caffe {
template <typename Dtype>
int good(int x) {
  return x;
}
double bad(double* a) {
  arma::mat m(a);
  if (m) { return 1; }
  return arma::det(m);
}
}
"""


def test_functions_that_do_not_compile_throw_the_reason():
    said = {1: "armadillo: No such file or directory", 8: "'arma' is not \"here\"", 10: "'arma' again"}
    made = salvage.without(SALVAGED, said, "math.cpp")
    assert "arma:" not in made and "#include" not in made and made.count("\n") == SALVAGED.count("\n")
    reason = "a function that does not compile (math.cpp:8: 'arma' is not here)"
    assert f'double bad(double* a) {{fork_missing("{reason}");' in made and "return x;" in made
    assert salvage.without(SALVAGED, {3: "a mistake"}, "math.cpp") is None
    assert salvage.without(SALVAGED, said, "math.cpp", needed=("bad",)) is None


@pytest.mark.parametrize("word", ["Dtype", "void"])
def test_losses_of_early_2014_return_what_others_write(tmp_path, word):
    header = tmp_path / "include/caffe/layer.hpp"
    header.parent.mkdir(parents=True)
    header.write_text(f"class Layer {{ virtual {word} Forward_cpu(const vector<Blob<Dtype>*>& bottom) = 0; }};")
    switch = "case LayerParameter_LayerType_FAR_LOSS: return new FarLossLayer<Dtype>(param);"
    (tmp_path / "src/caffe/proto").mkdir(parents=True)
    (tmp_path / "src/caffe/proto/caffe.proto").write_text(
        "message LayerParameter { enum LayerType { FAR_LOSS = 1; }\n}"
    )
    read = make(tmp_path, layer_factory_DOT_cpp=switch)
    assert read.generation.returns_loss is (word == "Dtype")
    fork = SimpleNamespace(tree=read, source_name=lambda name: "FAR_LOSS")
    assert layer_class(fork, "FarLoss").loss is (word == "Dtype")


def test_of_two_files_of_one_name_the_cpp_counts(tmp_path):
    layers = tmp_path / "src/caffe/layers"
    layers.mkdir(parents=True)
    for name, kind in (("both.cc", "Old"), ("both.cpp", "New"), ("alone.cc", "Alone")):
        (layers / name).write_text(f"REGISTER_LAYER_CLASS({kind});")
    assert tree.read(tmp_path).types.keys() == {"New", "Alone"}
