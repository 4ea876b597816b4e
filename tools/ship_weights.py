"""Makes the folder of a net that ships with weights, in caffelite/zoo/weights, of a finished run: weights in float16, a
deploy net, labels, pictures, the records of the run without paths and log, and a card with the score and digests.

Usage: python tools/ship_weights.py NAME RECIPE RUN WEIGHTS --data TEXT [--labels a,b,c] [--pictures FOLDER]
in the folder with the data that the net reads. The recipe's net is tested twice, with float32 and with the stored
weights; both scores are printed. Large blobs have the precision of bfloat16, so that a wheel, which is compressed, is a
fifth smaller.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from caffelite import caffelite_pb2 as pb, prototxt, weights
from caffelite.weights import caffemodel
from caffelite.zoo import catalog, trained

RAW_DATA_TYPE, RAW_DATA, FLOAT16 = 10, 12, 2  # of NVCaffe's BlobProto
SMALL = 4096  # values of a blob that stays float32: biases and statistics
SIGNIFICANT_BITS = 8  # of the other values
RECORDS = ("run.json", "net.prototxt", "solver.prototxt", "losses.f32", "metrics.csv")


def rounded(values: np.ndarray) -> np.ndarray:
    """Values in float16 with SIGNIFICANT_BITS, rounded to the nearest, half to even."""
    bits, dropped = values.astype("<f2").view(np.uint16).astype(np.uint32), 11 - SIGNIFICANT_BITS
    bits += (1 << (dropped - 1)) - 1 + (bits >> dropped & 1)
    return (bits >> dropped << dropped).astype("<u2").view("<f2")


def half_blob(values: np.ndarray) -> bytes:
    """A BlobProto with values of 16 bits, where it is large."""
    if values.size <= SMALL:
        return weights.encode_blob(values)
    shape = caffemodel.field_bytes(7, pb.BlobShape(dim=values.shape).SerializeToString())
    kind = caffemodel.tag_bytes(RAW_DATA_TYPE, caffemodel.VARINT) + caffemodel.varint_bytes(FLOAT16)
    return shape + kind + caffemodel.field_bytes(RAW_DATA, rounded(values).tobytes())


def half(model: Path) -> bytes:
    """A caffemodel with the blobs of another, by layer name."""
    body = b""
    for name, blobs in weights.read_model(model).items():
        layer = pb.LayerParameter(name=name).SerializeToString()
        body += caffemodel.field_bytes(
            100, layer + b"".join(caffemodel.field_bytes(7, half_blob(blob)) for blob in blobs)
        )
    return weights.sealed(body)


def caffelite(*words: str) -> str:
    command = [sys.executable, "-m", "caffelite", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def tested(net: Path, model: Path, batches: int, score: str) -> float:
    words = ["test", "-model", str(net), "-weights", str(model), "-iterations", str(batches), "-json"]
    answer = json.loads(caffelite(*words))
    return float(f"{next(each['value'] for each in answer['scores'] if each['name'] == score):.6g}")


def without_paths(text: str, folder: str) -> str:
    return text.replace(f"{folder}/", "").replace(json.dumps(folder)[1:-1], ".")


def copy_records(run: Path, target: Path) -> str:
    """The records of a run, without the paths and names of the machine; returns the command that made it."""
    record = json.loads((run / "run.json").read_text())
    folder = record["sessions"][0]["folder"]
    for session in record["sessions"]:
        session.update(host="", process=0)
        session["versions"].pop("system", None)
    target.mkdir(parents=True)
    for name in RECORDS:
        content = (run / name).read_bytes()
        if name == "run.json":
            content = without_paths(json.dumps(record, indent=1), folder).encode()
        elif name != "losses.f32":
            content = without_paths(content.decode(), folder).encode()
        (target / name).write_bytes(content)
    words = [re.sub(r"^--(\w+)=", r"-\1 ", word) for word in record["sessions"][0]["command"]]
    return " ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("name", "recipe", "run", "weights"):
        parser.add_argument(name, type=str if name in ("name", "recipe") else Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--labels", help="of the net that is deployed")
    parser.add_argument("--pictures", type=Path, help="a folder of class folders")
    parser.add_argument("--transform", default="", help="transform_param of pictures, where the recipe's data has none")
    parser.add_argument("--score", default="accuracy")
    parser.add_argument("--title", default="accuracy", help="the name of the score for readers")
    parser.add_argument("--unit", default="", help="of the score for readers")
    parser.add_argument("--per", type=float, default=1, help="what the score is divided by for that unit")
    parser.add_argument("--deployed", type=Path, help="the net to deploy, where it is not the recipe's")
    args = parser.parse_args()
    recipe, folder = catalog.find(args.recipe), trained.FOLDER / args.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = folder / f"{args.name}.caffemodel"
    model.write_bytes(half(args.weights))
    command, options = copy_records(args.run, folder / "run"), ["-out", str(folder / "deploy.prototxt"), "-force"]
    if args.labels:
        (folder / "labels.txt").write_text("".join(f"{label}\n" for label in args.labels.split(",")))
        options += ["-labels", str(folder / "labels.txt")]
    caffelite("deploy", "-model", str(args.deployed or recipe.net), "-weights", str(model), *options)
    deploy = folder / catalog.DEPLOY
    text = deploy.read_text().replace(f"{trained.FOLDER.parent}/", "")
    if args.transform:
        text = text.replace("  input_param {", f"  transform_param {{ {args.transform} }}\n  input_param {{", 1)
    deploy.write_text(text)
    if args.pictures:
        shutil.copytree(args.pictures, folder / "pictures")
    batches = prototxt.read_solver(recipe.solver).message.test_iter[0]
    values = [tested(recipe.net, each, batches, args.score) for each in (args.weights, model)]
    print(f"{args.score}: {values[0]!r} in float32, {values[1]!r} as stored, {model.stat().st_size:,} bytes")
    digests = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    test = f"caffelite test -model {args.name}/{catalog.NET} -weights {args.name}/{model.name} -iterations {batches}"
    card = {"recipe": args.recipe, "score": args.score, "value": values[1], "title": args.title, "unit": args.unit}
    card |= {"per": args.per, "data": args.data}
    card |= {"license": "BSD-2-Clause", "origin": command, "test": test, "files": digests}
    (folder / trained.CARD).write_text(json.dumps(card, indent=1) + "\n")


if __name__ == "__main__":
    main()
