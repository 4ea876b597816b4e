"""-gpu all and device_query: on machines without an NVIDIA GPU, with one that cannot be used, and with one that can."""

import logging

import pytest
from click.testing import CliRunner

from caffelite import caffelite_pb2 as pb, cli
from caffelite.devices import cuda
from caffelite.devices.cuda import presence
from caffelite.errors import CaffeliteError
from caffelite.runs import open_net

CARD = {"sys/bus/pci/devices/0000:17:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:17:00.0/class": "0x030200\n"}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, False),
        ({"dev/nvidia0": ""}, True),
        ({"dev/nvidiactl": ""}, False),
        ({"proc/driver/nvidia/gpus/0000:17:00.0/information": "Model: A100\n"}, True),
        ({"proc/driver/nvidia/version": "NVRM version\n"}, False),
        (CARD, True),
        (
            {**CARD, "sys/bus/pci/devices/0000:17:00.0/class": "0x040300\n"},
            False,
        ),  # the sound of a card that was taken out
        ({**CARD, "sys/bus/pci/devices/0000:17:00.0/vendor": "0x1002\n"}, False),
        ({"sys/bus/pci/devices/0000:17:00.0/vendor": "0x10de\n"}, False),
        ({"dev/nvhost-gpu": ""}, True),
        ({"usr/lib/wsl/lib/libcuda.so.1": ""}, True),
    ],
)
def test_what_shows_that_a_machine_has_a_gpu(files, found, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert presence.present(tmp_path) == found


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs that can be used, and maybe one that cannot."""

    def set_up(usable: int, there: bool) -> None:
        def device_count(cupy) -> int:
            if not usable:
                raise CaffeliteError("no usable GPU", remedy="install the driver")
            return usable

        monkeypatch.setattr("caffelite.devices.cuda.installation.cupy_module", lambda use="-gpu": None)
        monkeypatch.setattr("caffelite.devices.cuda.installation.device_count", device_count)
        monkeypatch.setattr("caffelite.devices.cuda.present", lambda: there)

    return set_up


@pytest.mark.parametrize("mode", [None, pb.SolverParameter.GPU, pb.SolverParameter.CPU])
def test_all_of_no_gpus_is_the_cpu_with_one_warning(machine, caplog, mode):
    machine(0, False)
    with caplog.at_level(logging.INFO, "caffelite"):
        assert open_net.gpus("all", pb.SolverParameter(solver_mode=mode) if mode is not None else None) == []
    (line,) = caplog.records
    assert line.levelname == "WARNING" and "no NVIDIA GPU; running on the CPU" in line.getMessage()


def test_gpu_all_fails_if_no_gpu_is_usable(machine):
    machine(0, True)
    assert open_net.gpus("all") == open_net.gpus("0") == [0]
    errors = []
    for text in ("all", "0"):
        with pytest.raises(CaffeliteError, match="no usable GPU; install the driver") as error:
            open_net.open_device(text)
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def test_all_means_all_that_can_be_used(machine):
    machine(3, True)
    assert open_net.gpus("all") == [0, 1, 2]


@pytest.mark.parametrize("arguments", [[], ["--gpu", "all"]])
@pytest.mark.parametrize(("there", "said"), [(False, "no NVIDIA GPU"), (True, "install the driver")])
def test_device_query_without_a_usable_gpu_exits_with_1(machine, arguments, there, said):
    machine(0, there)
    done = CliRunner().invoke(cli.caffelite, ["device_query", *arguments])
    assert done.exit_code == 1 and said in done.output


def test_this_machine_is_asked_without_an_error():
    assert cuda.present() in (True, False)
