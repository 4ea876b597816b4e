"""The committed schema code is what the .proto says, and the .proto is Caffe's with every word explained."""

import json
import os
from importlib import import_module
from pathlib import Path

import compile_schema
import pytest
import schema_forks
from google.protobuf import descriptor_pb2
from schema_forks import FORK_VALUES, NEW_ENUMS, OWN, OWN_MESSAGES, OWN_VALUES, UNLISTED, of_forks
from schema_sentinels import SENTINELS

from caffelite import caffelite_pb2 as pb

SCHEMA = os.environ.get("CAFFELITE_SCHEMA")
FILES = sorted((Path(__file__).parent / "families").glob("*/schema.py"))
TABLES = [schema_forks, *(import_module(f"families.{path.parent.name}.schema") for path in FILES)]
ADDED = compile_schema.of_families()
Kind = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def compiled():
    """The .proto as the installed compiler understands it, comments included."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools, of the extra `test`, compiles the schema")
    return compile_schema.described()


def bare(file):
    """The same without what compilers add of their own accord, and with defaults of type float in one form of
    several."""
    copy = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    copy.ClearField("source_code_info")
    for field in copy.extension:
        field.ClearField("json_name")
    for message in copy.message_type:
        for field in message.field:
            field.ClearField("json_name")
            if field.type == Kind.TYPE_FLOAT and field.HasField("default_value"):
                field.default_value = f"{float(field.default_value):.7g}"
    return copy


def committed() -> descriptor_pb2.FileDescriptorProto:
    return bare(descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb))


def described(field) -> tuple:
    label = {Kind.LABEL_OPTIONAL: "optional", Kind.LABEL_REQUIRED: "required", Kind.LABEL_REPEATED: "repeated"}[
        field.label
    ]
    kind = field.type_name.removeprefix(".caffelite.") or Kind.Type.Name(field.type).removeprefix("TYPE_").lower()
    return field.number, label + (" packed" if field.options.packed else ""), kind, field.default_value


def fields(file) -> dict:
    return {f"{message.name}.{field.name}": field for message in file.message_type for field in message.field}


def named(file):
    """(path in the source information, name) of every message, field, enum and enum value."""

    def of_enum(enum, path, prefix):
        yield path, prefix + enum.name
        for i, value in enumerate(enum.value):
            yield (*path, 2, i), f"{prefix}{enum.name}.{value.name}"

    for i, enum in enumerate(file.enum_type):
        yield from of_enum(enum, (5, i), "")
    for i, message in enumerate(file.message_type):
        yield (4, i), message.name
        assert not message.nested_type, "nested messages would need a look here"
        for j, field in enumerate(message.field):
            yield (4, i, 2, j), f"{message.name}.{field.name}"
        for j, enum in enumerate(message.enum_type):
            yield from of_enum(enum, (4, i, 4, j), message.name + ".")


def test_committed_code_matches_the_proto(compiled):
    assert bare(compiled) == committed(), "run tools/compile_schema.py"


def test_everything_is_explained(compiled):
    comments = {
        tuple(place.path): (place.leading_comments + place.trailing_comments).strip()
        for place in compiled.source_code_info.location
    }
    silent = [name for path, name in named(compiled) if not comments.get(path)]
    assert not silent


def test_no_line_is_long():
    assert not [line for line in compile_schema.joined() if len(line.text) > 140]


def test_errors_of_the_joined_schema_name_the_file_as_written(tmp_path):
    """A number that two fields of a message have, and a message that is in no file."""
    families = {"a": 8001, "b": 8001}
    (tmp_path / "proto").mkdir()
    (tmp_path / "proto/caffelite.proto").write_text('syntax = "proto2";\n\nmessage LayerParameter {\n}\n')
    for name, number in families.items():
        (folder := tmp_path / "caffelite/families" / name).mkdir(parents=True)
        text = f"extend LayerParameter {{\n  // What.\n  optional uint32 {name} = {number};\n}}\n"
        (folder / "messages.proto").write_text(text)
    with pytest.raises(
        compile_schema.SchemaError, match=r"^caffelite/families/b/messages.proto:3:.* 8001 .*LayerParam"
    ):
        compile_schema.described(tmp_path)
    (tmp_path / "caffelite/families/b/messages.proto").write_text("extend Other {\n  optional uint32 b = 1;\n}\n")
    with pytest.raises(compile_schema.SchemaError, match=r"^caffelite/families/b/messages.proto:2: extends Other"):
        compile_schema.described(tmp_path)


def test_fields_of_families_are_joined_where_they_extend(tmp_path):
    (tmp_path / "proto").mkdir()
    (tmp_path / "proto/caffelite.proto").write_text('syntax = "proto2";\n\nmessage A {\n  optional uint32 x = 1;\n}\n')
    (folder := tmp_path / "caffelite/families/f").mkdir(parents=True)
    (folder / "messages.proto").write_text("extend A {\n  // Two.\n  optional B y = 2;\n}\n\nmessage B {\n}\n")
    file = compile_schema.described(tmp_path)
    assert {m.name: [f.name for f in m.field] for m in file.message_type} == {"A": ["x", "y"], "B": []}


@pytest.mark.parametrize("name", SENTINELS)
def test_sentinel(name):
    assert described(fields(committed())[name]) == SENTINELS[name]


def test_hinge_norms_start_at_one():
    assert dict(pb.HingeLossParameter.Norm.items()) == {"L1": 1, "L2": 2}


def test_old_layer_types_keep_their_numbers():
    old = pb.V1LayerParameter
    assert (old.CONVOLUTION, old.SOFTMAX_LOSS, old.DECONVOLUTION) == (4, 21, 39)


def of_no_family(name: str) -> bool:
    return name not in ADDED and name.split(".")[0] not in ADDED


def test_numbers_from_8000_are_ours_alone():
    high = {name for name, field in fields(committed()).items() if field.number >= 8000 and of_no_family(name)}
    assert high == OWN | {name for name, (_, number) in of_forks(schema_forks).items() if number >= 8000}


@pytest.mark.parametrize("tables", TABLES, ids=lambda module: module.__name__)
def test_fields_of_forks_have_their_numbers(tables):
    numbers = {name: number for name, (_, number) in of_forks(tables).items()} | getattr(tables, "UNLISTED", {})
    listed = fields(committed())
    assert {name: listed[name].number for name in numbers} == numbers


@pytest.mark.skipif(not SCHEMA, reason="CAFFELITE_SCHEMA, the list of Caffe's own fields, is not set")
@pytest.mark.parametrize("tables", TABLES, ids=lambda module: module.__name__)
def test_fields_of_forks_are_theirs(tables):
    """Type, label and default are the fork's, and its number too where that clashes with nobody's."""
    lists = {
        fork: json.loads((Path(SCHEMA).parent / f"{fork}_extra.json").read_text())["messages"]
        for fork in ("nvidia", "intel")
    }
    everyone = [json.loads(Path(SCHEMA).read_text())["messages"], *lists.values()]
    actual = fields(committed())
    for name, (fork, number) in of_forks(tables).items():
        message, field = name.split(".")
        theirs = lists[fork][message][field]
        default = theirs.get("default", "")
        mine = described(actual[name])
        assert mine[1:3] == (theirs["label"], theirs["type"]), name
        assert mine[3] == default or float(mine[3]) == float(default), name
        takers = {
            other
            for listed in everyone
            for other, f in listed.get(message, {}).items()
            if f["number"] == theirs["number"]
        }
        assert (number == theirs["number"]) == (takers == {field}), f"{name}: {takers}"


@pytest.mark.skipif(not SCHEMA, reason="CAFFELITE_SCHEMA, the list of Caffe's own fields, is not set")
def test_every_name_number_type_and_default_is_caffes():
    caffe = json.loads(Path(SCHEMA).read_text())
    file = committed()
    forks = of_forks(schema_forks)
    added = {name.split(".")[0] for name in forks} - set(caffe["messages"])
    assert {m.name for m in file.message_type} - ADDED - set(OWN_MESSAGES) - added == set(caffe["messages"])
    expected = {
        f"{message}.{name}": (
            f["number"],
            f["label"] + (" packed" if f.get("packed") else ""),
            f["type"],
            f.get("default", ""),
        )
        for message, listed in caffe["messages"].items()
        for name, f in listed.items()
    }
    actual = {
        name: described(f)
        for name, f in fields(file).items()
        if of_no_family(name) and name not in {*OWN, *forks, *UNLISTED} and name.split(".")[0] not in OWN_MESSAGES
    }
    assert actual == expected
    enums = {enum.name: enum for enum in file.enum_type}
    core = [message for message in file.message_type if message.name not in ADDED]
    enums |= {f"{message.name}.{enum.name}": enum for message in core for enum in message.enum_type}
    expected = {
        name: values | FORK_VALUES.get(name, {}) | OWN_VALUES.get(name, {}) for name, values in caffe["enums"].items()
    } | NEW_ENUMS
    assert {name: {value.name: value.number for value in enum.value} for name, enum in enums.items()} == expected
