"""Builds a net layer by layer, and writes it as a readable prototxt."""

import re
import textwrap

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.scaffold.comments import folded

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

    def classify(
        self, scores: str, loss: str = "loss", top_5: bool = False, smoothing: float = 0, tested: str = ""
    ) -> None:
        """Adds the output: probabilities in a deploy net, else loss and, in TEST, accuracy. smoothing: of
        labels. tested: the scores in TEST, where they are another blob."""
        if self.deploy:
            self.add("Softmax", "prob", scores)
            return
        self.section("Loss and test metrics.")
        fields = {"loss_param": {"label_smoothing": smoothing}} if smoothing else {}
        train, test = [{"phase": pb.TRAIN}], [{"phase": pb.TEST}]
        tested = tested or scores
        if tested != scores:
            self.add("SoftmaxWithLoss", loss, scores, "label", include=train, **fields)
        self.add("SoftmaxWithLoss", loss, tested, "label", **({"include": test} if tested != scores else {}), **fields)
        self.add("Accuracy", "accuracy", tested, "label", include=test)
        if top_5:
            self.add("Accuracy", "accuracy_top_5", tested, "label", include=test, accuracy_param={"top_k": 5})

    def text(self) -> str:
        """The prototxt, with comments; blocks that fit on one line are on one line."""
        about = textwrap.wrap(self.about + " Generated by tools/make_models.py.", WIDTH - 2)
        parts = [*(f"# {line}" for line in about), f'name: "{self.net.name}"', ""]
        for i, layer in enumerate(self.net.layer):
            if i in self.comments:
                parts += [""] * (parts[-1] != "") + [f"# {self.comments[i]}"]
            text = re.sub(r"(: -?\d+)\.0\n", r"\1\n", prototxt.write(pb.NetParameter(layer=[layer])))
            parts.append(folded(text, WIDTH))
        return "\n".join(parts) + "\n"
