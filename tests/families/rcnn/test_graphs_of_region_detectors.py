"""A region detector whose iterations are graphs in pieces gives the bits of eager passes."""

import json

import numpy as np
import pytest
from devices.host.backend import HostBackend
from families.rcnn.test_region_detector import NET, SOLVER
from training.capturing import trained

from caffelite.data.images import encode_png
from caffelite.devices.cuda import GPU

pytestmark = pytest.mark.host


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[(24, 32)] * 4, [(24, 32), (32, 24), (24, 32), (28, 28)]], ids=["equal", "varied"])
def test_a_region_detector(folder, train, sizes):
    """Where images have one size, its iterations are graphs between the layers that sample."""
    rng, coco = np.random.default_rng(0), {"images": [], "annotations": [], "categories": [{"id": 1}, {"id": 2}]}
    for i, (height, width) in enumerate(sizes):
        (folder / f"{i}.png").write_bytes(encode_png(rng.integers(0, 256, (height, width, 3)).astype(np.uint8)))
        coco["images"].append({"id": i, "file_name": f"{i}.png", "height": height, "width": width})
        coco["annotations"] += [
            {"image_id": i, "category_id": 1 + k % 2, "bbox": [3 * k, 5, 10 + k, 9]} for k in range(2)
        ]
    (folder / "boxes.json").write_text(json.dumps(coco))
    (folder / "regions.prototxt").write_text(NET)
    device = GPU(0, "float32", HostBackend(), eager="as requested")
    expected = trained(train, device, SOLVER)
    device.eager = ""
    log, losses, params = trained(train, device, SOLVER)
    assert any("Running in part as CUDA graphs" in line for line in log) and losses == expected[1]
    np.testing.assert_equal(params, expected[2])
    graphs = device.backend.graphs
    assert not device.why_eager() and sum(g.runs for g in graphs) > (20 if sizes[0] == sizes[-1] else -1)
