"""The YAML of the cluster's page has the fields that Kubernetes knows, and runs commands that exist."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from caffelite.cli import caffelite, normalize

PAGE = Path(__file__).parents[2] / "docs/cluster.md"
VERSION = "1.30"


def documents() -> dict[str, dict[str, Any]]:
    """By kind."""
    yaml = pytest.importorskip("yaml")
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {document["kind"]: document for document in map(yaml.safe_load, blocks)}


def pods(document: dict[str, Any]) -> list[dict[str, Any]]:
    spec = document["spec"]
    return [each["template"] for each in spec.get("mpiReplicaSpecs", {"": spec}).values()]


@pytest.mark.parametrize("kind", ["Job", "MPIJob"])
def test_fields_are_those_of_the_schema(kind):
    validator = pytest.importorskip("kubernetes_validate")
    document = documents()[kind]
    if kind == "Job":  # the other one is no kind of Kubernetes itself
        validator.validate(document, VERSION, strict=True)
    for pod in pods(document):
        whole = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": pod}
        validator.validate(whole, VERSION, strict=True)
    with pytest.raises(validator.ValidationError):
        validator.validate({**whole, "template": {"spec": {"container": []}}}, VERSION, strict=True)


@pytest.mark.parametrize("kind", ["Job", "MPIJob"])
def test_commands_are_those_of_caffelite(kind):
    commands = [
        container.get("command", []) for pod in pods(documents()[kind]) for container in pod["spec"]["containers"]
    ]
    words = [command[command.index("caffelite") + 1 :] for command in commands if "caffelite" in command]
    assert len(words) == 1
    done = CliRunner().invoke(caffelite, [*map(normalize, words[0]), "--help"])
    assert done.exit_code == 0, done.output
