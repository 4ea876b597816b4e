"""The traits of devices: made without a device, and equal to those of one that is open."""

import dataclasses

import engines
import pytest
from devices.host.backend import HostBackend

from caffelite.devices.cuda import GPU
from caffelite.devices.traits import LITTLE_WORK, cpu_traits, cuda_traits


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_open_cpu_has_the_traits_made_without_one(precision):
    assert engines.without_onednn().traits == cpu_traits(onednn=False)
    assert engines.with_onednn(precision).traits == cpu_traits(precision)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_an_open_gpu_has_the_traits_made_without_one(precision):
    backend = HostBackend()
    expected = cuda_traits(precision, "float32", backend.capability)
    assert GPU(0, "float32", backend, precision=precision).traits == expected


@pytest.mark.parametrize(
    ("traits", "channels_last", "products", "images", "little"),
    [
        (cpu_traits(), True, "float32", "float32", 0),
        (cpu_traits(onednn=False), False, "float32", "float32", 0),
        (cpu_traits("bf16"), True, "bfloat16", "bfloat16", 0),
        (cpu_traits(dtype="float64"), False, "float64", "float64", 0),
        (cuda_traits(), True, "float32", "float32", LITTLE_WORK),
        (cuda_traits("fp32"), False, "float32", "float32", LITTLE_WORK),
        (cuda_traits("fp16"), True, "float16", "float16", 0),
        (cuda_traits("bf16"), True, "bfloat16", "bfloat16", 0),
        (cuda_traits("fp16", capability=(6, 0)), False, "float16", "float32", LITTLE_WORK),
        (cuda_traits("fp16", "float64"), False, "float64", "float64", LITTLE_WORK),
    ],
)
def test_layout_and_dtypes(traits, channels_last, products, images, little):
    assert (traits.channels_last, traits.little_work) == (channels_last, little)
    assert (traits.product_dtype, traits.image_dtype) == (products, images)
    assert traits.half == (products not in ("float32", "float64"))
    assert traits.half_images == (images not in ("float32", "float64"))


def test_fp16_losses_bring_no_gradients():
    assert not cuda_traits("fp16").losses_bring_gradients and cuda_traits("bf16").losses_bring_gradients


def test_traits_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        cpu_traits().channels_last = False
