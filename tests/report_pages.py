"""Weights of small nets for tests of reports, and a parser of a report's page."""

from html.parser import HTMLParser
from pathlib import Path

from caffelite import caffelite_pb2 as pb, weights


def write_weights(path: Path, blobs) -> None:
    net = pb.NetParameter()
    for name, arrays in blobs.items():
        layer = net.layer.add(name=name, type="InnerProduct")
        for array in arrays:
            layer.blobs.add(shape=pb.BlobShape(dim=array.shape), data=array.reshape(-1))
    path.write_bytes(weights.sealed(net.SerializeToString()))


class Page(HTMLParser):
    """Fails where a tag closes another than the open one."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.images, self.alts = [], "", [], []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs)["src"])
            self.alts.append(dict(attrs)["alt"])
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
