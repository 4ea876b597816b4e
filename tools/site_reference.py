"""Generates the pages of the documentation site that follow from the code: layers and the fields of prototxts."""

import sys
from collections import defaultdict
from pathlib import Path

from compile_schema import described
from google.protobuf import descriptor_pb2

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError
from caffelite.inspection import picture, scene
from caffelite.layers import REGISTRY, Layer
from caffelite.net import graph

ROOT = Path(__file__).resolve().parent.parent
FIELD = descriptor_pb2.FieldDescriptorProto
# Messages that are read only in old or binary files: their fields are no part of a prototxt that one writes today.
INTERNAL = {"V0LayerParameter", "V1LayerParameter", "CarriedState", "ResumeState", "RunOrigin", "SourcePosition"}
MESSAGES = 4  # the number of ``message_type`` in FileDescriptorProto, which begins the path of a comment
FIELDS, NESTED, ENUMS, VALUES = 2, 3, 4, 2  # of ``field``, ``nested_type``, ``enum_type``; and of an enum's ``value``

# The layer, as it stands in an example net. Other types are shown by the first case of their tests.
EXAMPLES = {
    "Data": 'top: "label" data_param { source: "train_lmdb" batch_size: 64 backend: LMDB } '
    "transform_param { scale: 0.00390625 }",
    "ImageData": 'top: "label" image_data_param { source: "train.txt" batch_size: 32 new_height: 224 new_width: 224 }',
    "HDF5Data": 'hdf5_data_param { source: "files.txt" batch_size: 100 }',
    "WindowData": 'top: "label" window_data_param { source: "windows.txt" batch_size: 128 } '
    "transform_param { crop_size: 227 }",
    "MemoryData": 'top: "label" memory_data_param { batch_size: 8 channels: 3 height: 32 width: 32 }',
    "DummyData": 'dummy_data_param { shape { dim: 8 dim: 3 dim: 32 dim: 32 } data_filler { type: "gaussian" } }',
    "Input": "input_param { shape { dim: 1 dim: 3 dim: 224 dim: 224 } }",
    "Parameter": "parameter_param { shape { dim: 10 dim: 20 } }",
    "HDF5Output": 'hdf5_output_param { file_name: "features.h5" }',
    "Python": 'python_param { module: "my_layers" layer: "Scale" param_str: "2" }',
}


def pages() -> dict[str, str]:
    """The text of every generated page and picture, by its path in the site."""
    return {**layer_pages(), **schema_pages()}


# layers


def layer_pages() -> dict[str, str]:
    """A page for each module of layers, or package of a family of forks, with pictures, and an index."""
    families: dict[str, list[type[Layer]]] = defaultdict(list)
    for kind in REGISTRY.values():
        families[group(kind)].append(kind)
    found, rows = {}, []
    for module, kinds in sorted(families.items()):
        family = module.rpartition(".")[2]
        text = (sys.modules[module].__doc__ or "").strip()
        title = family.replace("_", " ").capitalize()
        sections = [f"# {title}\n\n{text}\n"]
        for kind in kinds:
            body, drawn = layer_section(kind, family)
            sections.append(body)
            found.update(drawn)
            rows.append(f"| [{kind.type or kind.__name__}]({family}.md#{anchor(kind)}) | {title} | {summary(kind)} |")
        found[f"reference/layers/{family}.md"] = "\n".join(sections)
    head = "# Layers\n\nEvery layer type, with an example. [All on one page](../../layers.md).\n\n"
    found["reference/layers/index.md"] = (
        head + "| type | family | what it computes |\n| --- | --- | --- |\n" + "\n".join(sorted(rows)) + "\n"
    )
    return found


def group(kind: type[Layer]) -> str:
    """The module or package whose page has a type."""
    package, _, _ = kind.__module__.rpartition(".")
    if package == "caffelite.data.layers":
        return "caffelite.layers.data"
    return kind.__module__ if package == "caffelite.layers" else package


def anchor(kind: type[Layer]) -> str:
    return (kind.type or kind.__name__).lower()


def summary(kind: type[Layer]) -> str:
    """The first paragraph of a layer's docstring, for a cell of a table."""
    return " ".join(paragraphs(kind)[0].split()).replace("|", "\\|")


def paragraphs(kind: type[Layer]) -> list[str]:
    lines = [line.strip() for line in (kind.__doc__ or "").strip().split("\n")]
    return "\n".join(lines).split("\n\n")


def layer_section(kind: type[Layer], family: str) -> tuple[str, dict[str, str]]:
    """A layer's part of its page, and the picture that it shows."""
    name, drawn = kind.type or kind.__name__, {}
    parts = [f"## {name}\n", "\n\n".join(paragraphs(kind)).replace("[", "\\[") + "\n"]
    if kind.field:
        message = type(getattr(pb.LayerParameter(), kind.field)).DESCRIPTOR.name
        parts.append(f"Fields: `{kind.field}`, a [{message}](../schema/{message}.md).\n")
    text = example(name)
    parts.append(f"```protobuf\n{text}```\n")
    if shown := drawing(text):
        path = f"reference/layers/{name}.svg"
        drawn[path] = shown
        parts.append(f"![The net of the example: {name} with the shapes of its blobs]({name}.svg)\n")
    return "\n".join(parts), drawn


def example(name: str) -> str:
    """A small net with a layer of this type."""
    if name in EXAMPLES:
        top = 'bottom: "data" ' if name in ("HDF5Output", "Python") else ""
        top += "" if name == "HDF5Output" else 'top: "data" ' if name != "Python" else 'top: "y" '
        fed = 'layer { name: "input" type: "Input" top: "data" input_param { shape { dim: 8 dim: 10 } } }\n'
        net = (
            fed if "bottom" in top else ""
        ) + f'layer {{ name: "{name.lower()}" type: "{name}" {top}{EXAMPLES[name]} }}'
    else:
        net = _row(name).text()
    return prototxt.write(prototxt.parse(net, pb.NetParameter, "example").message)


def _row(name: str):
    """The plainest test case of a layer type: one without a name, or the first."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.insert(0, str(ROOT / "tests"))
    from layers.layer_rows import ROWS

    return min((row for row in ROWS if row.kind == name), key=lambda row: bool(row.name))


def drawing(text: str) -> str | None:
    """The picture of a net as SVG; None where the net needs data or a module that is not there."""
    document = prototxt.parse(text, pb.NetParameter, "example")
    try:
        wiring = graph.build(document.message, pb.NetState(phase=pb.TRAIN), document.locate)
    except (CaffeliteError, AttributeError):
        return None
    return scene.svg(picture.picture(wiring))


# fields of prototxts


def schema_pages() -> dict[str, str]:
    """A page for each message of the schema, and an index in the order of the file."""
    file = described()
    comments = {tuple(p.path): (p.leading_comments, p.trailing_comments) for p in file.source_code_info.location}
    used = users(file)
    found, rows = {}, []
    for i, message in enumerate(file.message_type):
        if message.name in INTERNAL:
            continue
        text = comment(comments, (MESSAGES, i))
        found[f"reference/schema/{message.name}.md"] = message_page(message, (MESSAGES, i), comments, used)
        rows.append(f"| [{message.name}]({message.name}.md) | {cell(text.split('. ')[0])} |")
    head = (
        "# Fields of prototxts\n\nEvery message and field of a net or solver file, from proto/caffelite.proto and the "
        "messages.proto of each family of layers. A net is a [NetParameter](NetParameter.md), a solver "
        "a [SolverParameter](SolverParameter.md), a layer a [LayerParameter](LayerParameter.md).\n\n"
    )
    found["reference/schema/index.md"] = head + "| message | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    return found


def users(file: descriptor_pb2.FileDescriptorProto) -> dict[str, list[str]]:
    """By message, those that have a field of it."""
    found: dict[str, list[str]] = defaultdict(list)
    for message in file.message_type:
        for field in message.field:
            if field.type == FIELD.TYPE_MESSAGE and message.name not in INTERNAL:
                found[field.type_name.rsplit(".", 1)[1]].append(message.name)
    return found


def comment(comments: dict, path: tuple[int, ...]) -> str:
    """A comment's text, without the headings of sections."""
    leading, trailing = comments.get(path, ("", ""))
    lines = [line.strip() for line in (leading or trailing).strip().split("\n")]
    return "\n".join(line for line in lines if not line.startswith("-- ") and not set(line) == {"-"}).strip()


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def message_page(message: descriptor_pb2.DescriptorProto, path: tuple, comments: dict, used: dict) -> str:
    lines = [f"# {message.name}\n", code_block(comment(comments, path)) + "\n"]
    if users := [f"[{name}]({name}.md)" for name in dict.fromkeys(used[message.name])]:
        lines.append(f"Used in {', '.join(users)}.\n")
    lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for j, field in enumerate(message.field):
        text = cell(comment(comments, (*path, FIELDS, j)))
        lines.append(f"| `{field.name}` | {type_cell(field)} | {default_cell(field)} | {text} |")
    for j, enum in enumerate(message.enum_type):
        lines += [f"\n## {enum.name}\n", "| value | meaning |", "| --- | --- |"]
        for k, value in enumerate(enum.value):
            lines.append(f"| `{value.name}` | {cell(comment(comments, (*path, ENUMS, j, VALUES, k)))} |")
    return "\n".join(lines) + "\n"


def code_block(text: str) -> str:
    """Comments may have tables that are aligned by spaces: those stay as they are."""
    return f"```text\n{text}\n```" if "   " in text else text


def type_cell(field: descriptor_pb2.FieldDescriptorProto) -> str:
    if field.type_name:
        *outer, name = field.type_name.rsplit(".", 2)[-2:]
        top = name in pb.DESCRIPTOR.message_types_by_name and name not in INTERNAL
        shown = f"[{name}]({name}.md)" if top else name
    else:
        shown = FIELD.Type.Name(field.type).removeprefix("TYPE_").lower()
    return ("list of " if field.label == FIELD.LABEL_REPEATED else "") + shown


def default_cell(field: descriptor_pb2.FieldDescriptorProto) -> str:
    if field.label == FIELD.LABEL_REPEATED:
        return ""
    if field.HasField("default_value"):
        return f"`{field.default_value}`" if field.default_value else ""
    return "required" if field.label == FIELD.LABEL_REQUIRED else ""
