"""Writes the nets of models/ from their descriptions in shipped_nets.py: train_val.prototxt, and deploy.prototxt for
classifiers.

Usage: python tools/make_models.py [--check] [NET ...]
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

from caffelite import caffelite_pb2 as pb
from caffelite import prototxt

FOLDER = Path(__file__).resolve().parent.parent / "models"
WIDTH = 120


class Model:
    """Builds a net. Its methods add one or several layers and return the name of the last top."""

    def __init__(self, name: str, about: str, deploy: bool = False):
        self.net, self.about, self.deploy = pb.NetParameter(name=name), about, deploy
        self.comments: dict[int, str] = {}  # before the layer with this index

    def section(self, comment: str) -> None:
        self.comments[len(self.net.layer)] = comment

    def add(self, type: str, name: str, *bottoms: str, top: str | list[str] = "", **fields) -> str:
        """Adds a layer; its top has the name of the layer by default. fields: of LayerParameter, messages as
        dictionaries."""
        tops = [top or name] if isinstance(top, str) else top
        self.net.layer.append(pb.LayerParameter(name=name, type=type, bottom=bottoms, top=tops, **fields))
        return tops[0] if tops else ""

    def on(self, type: str, name: str, blob: str, **fields) -> str:
        """Adds an in-place layer."""
        return self.add(type, name, blob, top=blob, **fields)

    def conv(
        self, name: str, bottom: str, num_output: int, kernel: int, stride: int = 1, pad: int = 0, param=(), **fields
    ) -> str:
        p = {"num_output": num_output, "kernel_size": [kernel], **fields}
        p |= {k: [v] for k, v in (("stride", stride), ("pad", pad)) if v != {"stride": 1, "pad": 0}[k]}
        return self.add("Convolution", name, bottom, param=param, convolution_param=p)

    def fc(self, name: str, bottom: str, num_output: int, param=(), **fields) -> str:
        return self.add(
            "InnerProduct", name, bottom, param=param, inner_product_param={"num_output": num_output, **fields}
        )

    def pool(self, name: str, bottom: str, method: str, kernel: int = 0, stride: int = 1, pad: int = 0) -> str:
        """A kernel of 0 is global pooling."""
        p = {"kernel_size": kernel, "stride": stride} if kernel else {"global_pooling": True}
        return self.add("Pooling", name, bottom, pooling_param={"pool": method, **p, **({"pad": pad} if pad else {})})

    def relu(self, name: str, blob: str) -> str:
        return self.on("ReLU", name, blob)

    def drop(self, name: str, blob: str, ratio: float = 0.5) -> str:
        return self.on("Dropout", name, blob, dropout_param={"dropout_ratio": ratio})

    def data(
        self, source: str, shape: tuple[int, ...], batches: tuple[int, int], test: str = "test", transform=None, **train
    ) -> str:
        """An LMDB for TRAIN and one for TEST; in a deploy net an Input of one image. train: fields of TRAIN's
        transform, or shuffle."""
        if self.deploy:
            return self.add("Input", "data", input_param={"shape": [{"dim": (1, *shape)}]})
        for phase, part, batch in zip((pb.TRAIN, pb.TEST), ("train", test), batches, strict=True):
            change, p = transform or {}, {"source": f"{source}_{part}_lmdb", "batch_size": batch, "backend": "LMDB"}
            if phase == pb.TRAIN:
                change = change | {name: value for name, value in train.items() if name != "shuffle"}
                p |= {"shuffle": True} if train.get("shuffle") else {}
            include = [{"phase": phase}]
            self.add(
                "Data",
                "data",
                top=["data", "label"],
                include=include,
                **({"transform_param": change} if change else {}),
                data_param=p,
            )
        return "data"

    def rows(self, source: str, tops: list[str], batches: tuple[int, int]) -> None:
        """Lists of HDF5 files for TRAIN and for TEST."""
        for phase, part, batch in zip((pb.TRAIN, pb.TEST), ("train", "test"), batches, strict=True):
            p = {"source": f"{source}_{part}.txt", "batch_size": batch}
            self.add("HDF5Data", "data", top=tops, include=[{"phase": phase}], hdf5_data_param=p)

    def classify(self, scores: str, loss: str = "loss", top_5: bool = False) -> None:
        """Adds the output: probabilities in a deploy net, else loss and, in TEST, accuracy."""
        if self.deploy:
            self.add("Softmax", "prob", scores)
            return
        self.section("Loss and test metrics.")
        self.add("SoftmaxWithLoss", loss, scores, "label")
        test = [{"phase": pb.TEST}]
        self.add("Accuracy", "accuracy", scores, "label", include=test)
        if top_5:
            self.add("Accuracy", "accuracy_top_5", scores, "label", include=test, accuracy_param={"top_k": 5})

    def text(self) -> str:
        """The prototxt, with comments; blocks that fit on one line are on one line."""
        about = textwrap.wrap(self.about + " Generated by tools/make_models.py.", WIDTH - 2)
        parts = [*(f"# {line}" for line in about), f'name: "{self.net.name}"', ""]
        for i, layer in enumerate(self.net.layer):
            if i in self.comments:
                parts += [""] * (parts[-1] != "") + [f"# {self.comments[i]}"]
            parts.append(folded(re.sub(r"(: -?\d+)\.0\n", r"\1\n", prototxt.write(pb.NetParameter(layer=[layer])))))
        return "\n".join(parts) + "\n"


def folded(text: str) -> str:
    """Joins each block { } that fits within the width to one line."""
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if line.strip() == "}":
            indent = line[: line.index("}")]
            start = next(
                i for i in range(len(lines) - 2, -1, -1) if lines[i].startswith(indent) and lines[i][len(indent)] != " "
            )
            joined = indent + " ".join(part.strip() for part in lines[start:])
            if len(joined) <= WIDTH:
                lines[start:] = [joined]
    return "\n".join(lines)


def files() -> dict[Path, str]:
    """Path → text of every generated net."""
    from shipped_nets import NETS

    return {
        FOLDER / folder / f"{kind}.prototxt": net.model(kind).text()
        for folder, net in NETS.items()
        for kind in net.kinds
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not up to date")
    parser.add_argument("net", nargs="*", help="folders of models/ to write; default: all")
    args = parser.parse_args()
    every = files()
    if unknown := set(args.net) - {path.parent.name for path in every}:
        parser.error(f"no such net: {', '.join(sorted(unknown))}")
    stale = []
    for path, text in every.items():
        if args.net and path.parent.name not in args.net or path.is_file() and path.read_text() == text:
            continue
        stale.append(f"{path.parent.name}/{path.name}")
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    print(f"{len(every)} nets; {'stale' if args.check else 'written'}: {', '.join(stale) or 'none'}")
    if args.check and stale:
        sys.exit(1)


if __name__ == "__main__":
    main()
