"""Detectors whose iterations are captured in graphs do what eager ones do, bit for bit, on a GPU whose graphs are lists
of calls."""

import lmdb
import numpy as np
import pytest
from devices.host.backend import HostBackend
from training.capturing import compare

from caffelite import caffelite_pb2 as pb
from caffelite.devices.cuda import GPU

pytestmark = pytest.mark.host

SSD = """
name: "ssd"
layer { name: "data" type: "AnnotatedData" top: "data" top: "label"
  transform_param { mirror: true scale: 0.0078125 mean_value: 127 }
  data_param { source: "annotated" backend: LMDB batch_size: 3 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 4 stride: 4 weight_filler { type: "msra" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "offsets" type: "Convolution" bottom: "conv" top: "offsets"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "offsets/last" type: "Permute" bottom: "offsets" top: "offsets/last"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "offsets/flat" type: "Flatten" bottom: "offsets/last" top: "offsets/flat" }
layer { name: "scores" type: "Convolution" bottom: "conv" top: "scores"
  convolution_param { num_output: 12 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "scores/last" type: "Permute" bottom: "scores" top: "scores/last"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "scores/flat" type: "Flatten" bottom: "scores/last" top: "scores/flat" }
layer { name: "priors" type: "PriorBox" bottom: "conv" bottom: "data" top: "priors"
  prior_box_param { min_size: 6 max_size: 10 aspect_ratio: 2 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
layer { name: "loss" type: "MultiBoxLoss" bottom: "offsets/flat" bottom: "scores/flat" bottom: "priors" bottom: "label"
  top: "loss" multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE overlap_threshold: 0.4 } }
"""
SOLVER = 'net: "ssd.prototxt" base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" max_iter: 24 display: 8 random_seed: 2'


@pytest.fixture
def annotated(folder):
    """Seven images of 16 × 20 pixels with 0, 1, 2, 3, 0, 1 and 2 objects."""
    rng = np.random.default_rng(4)
    with lmdb.open(str(folder / "annotated"), map_size=1 << 22, lock=False) as db, db.begin(write=True) as writing:
        for i in range(7):
            pixels = rng.integers(0, 256, (3, 16, 20)).astype(np.uint8).tobytes()
            datum = pb.Datum(channels=3, height=16, width=20, data=pixels)
            record = pb.AnnotatedDatum(datum=datum, type=pb.AnnotatedDatum.BBOX)
            for _ in range(i % 4):
                left, top = rng.uniform(0, 0.5, 2)
                box = pb.NormalizedBBox(xmin=left, ymin=top, xmax=left + 0.4, ymax=top + 0.5)
                record.annotation_group.add(group_label=rng.integers(1, 3)).annotation.add(bbox=box)
            writing.put(b"%08d" % i, record.SerializeToString())
    (folder / "ssd.prototxt").write_text(SSD)
    return folder


@pytest.mark.slow
def test_iterations_of_ssd_are_captured(annotated, train):
    """Though the batches have different numbers of objects."""
    graphs, runs = compare(train, GPU(0, "float32", HostBackend()), SOLVER)
    assert graphs >= 4 and runs > 20


@pytest.mark.slow
def test_a_gpu_learns_ssd_as_the_cpu_does(annotated, train, device):
    on_cpu, on_gpu = (train(SOLVER, device=dev).losses() for dev in (device, GPU(0, "float32", HostBackend())))
    assert len(on_cpu) == 4
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-3)
