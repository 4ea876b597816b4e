"""The flags of Caffe's log library: accepted anywhere; minloglevel decides what is logged."""

import logging
import os

import pytest

from caffelite.cli import glog, logs


@pytest.mark.parametrize(
    "flags",
    [
        "--logtostderr=1",
        "-logtostderr",
        "--alsologtostderr",
        "--nologtostderr",
        "-colorlogtostderr=true",
        "-nolog_prefix",
        "-v 1",
        "-v=2",
        "--v -1",
        "-vmodule solver=2,net=1",
        "-stderrthreshold 1",
        "-log_dir /nowhere",
        "--log-dir=/nowhere",
        "-max_log_size=10",
    ],
)
def test_flags_are_accepted_anywhere(flags):
    words = flags.split()
    for given in (["check", "a", *words], [*words, "check", "a"], ["check", *words, "a"]):
        assert glog.split(given) == (["check", "a"], None)


def test_other_arguments_are_kept():
    given = ["summary", "-model", "m", "-log", "--no", "-nov", "-nolog_prefix=1", "v", "--", "-v"]
    assert glog.split(given) == (given, None)


def test_minloglevel_decides_what_is_logged(folder, call):
    for flags, logged in ((["-minloglevel", 0], True), (["--minloglevel=1"], False), ([], True)):
        result = call(*flags, "train", "--logtostderr=1", "-solver", "solver.prototxt", "-set", "snapshot_prefix=other")
        assert result.status == 0 and ("Optimization Done." in result.lines) == logged
    assert "gone.prototxt" in call("train", "-solver", "gone.prototxt", "-minloglevel=3").refused.err
    assert glog.LEVEL not in os.environ


def test_the_variable_of_glog_counts_too(folder, call, monkeypatch):
    monkeypatch.setenv(glog.LEVEL, "2")
    assert call("upgrade", "net.prototxt", "new.prototxt").lines == []
    assert call("upgrade", "net.prototxt", "again.prototxt", "-minloglevel", "0").lines
    assert os.environ[glog.LEVEL] == "2"


@pytest.mark.parametrize(
    "flags, reported", [(["-minloglevel", "7"], "0 (INFO)"), (["-minloglevel=x"], '"x"'), (["-v"], "-v needs a value")]
)
def test_wrong_flags_are_an_error(call, flags, reported):
    assert reported in call("check", "a", *flags).refused.err


@pytest.fixture(scope="module")
def logging_command():
    """A module's fixture that runs a command, as several here do."""
    logs.start()


def test_no_logger_of_a_modules_command_reaches_a_test(logging_command, caplog):
    log = logging.getLogger("caffelite")
    log.warning("one line")
    assert [record.getMessage() for record in caplog.records] == ["one line"] and not log.handlers
