"""What a trial runs with, and where it does not run; the NPUs are files in another /dev."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ascend_supervisor.cluster.own_devices import npu_files
from ascend_supervisor.collection.running import supervisors
from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.processes.proc import words
from ascend_supervisor.trial.server import SAYS_NOTHING, setting_here
from ascend_supervisor.trial.summary import Setting
from tests.running import wait_until
from tests.trial.interpreters import interpreter

ENVIRON = {"PATH": os.environ["PATH"]}


def devices(place: Path, count: int) -> Path:
    made = place / "dev"
    made.mkdir()
    for name in ("davinci_manager", *(f"davinci{number}" for number in range(count))):
        (made / name).touch()
    return made


def setting(
    dev: Path,
    ranks: int | None = None,
    python: str = sys.executable,
    environ: Mapping[str, str] = ENVIRON,
    others: Iterable[int] = (),
) -> Setting:
    """That of a machine with these processes: other tests run supervisors."""
    return setting_here(ranks, python, environ, npu_files(dev), partial(supervisors, others))


@contextmanager
def running(*command: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, **options) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("count", "packages", "kind", "says_nothing"),
    [
        (8, ("torch", "torch_npu", "mindspore"), "torch_npu", False),
        (8, ("mindspore",), "mindspore", False),
        (8, ("torch",), "plain", True),
        (0, ("torch", "torch_npu"), "gloo", True),
        (0, ("mindspore",), "mindspore_cpu", True),
        (0, (), "plain", True),
    ],
)
def test_the_kind_of_ranks_is_what_npus_and_packages_allow(
    tmp_path, count, packages, kind, says_nothing
):
    python = interpreter(tmp_path, *packages)
    found = setting(devices(tmp_path, count), python=python)
    assert (len(found.npus), found.kind, found.python) == (count, kind, python)
    assert set(found.versions) == {"python", *packages}
    assert found.remark.endswith(SAYS_NOTHING) == says_nothing


@pytest.mark.parametrize(
    ("ranks", "visible", "expected"), [(None, "", 8), (None, "3,1", 2), (4, "", 4)]
)
def test_there_is_a_rank_for_each_npu_that_ranks_may_see(tmp_path, ranks, visible, expected):
    environ = {**ENVIRON, "ASCEND_RT_VISIBLE_DEVICES": visible}
    assert setting(devices(tmp_path, 8), ranks, environ=environ).ranks == expected


def test_without_npus_there_are_two_ranks_or_more(tmp_path):
    assert 2 <= setting(devices(tmp_path, 0)).ranks <= 8


def test_an_npu_that_somebody_holds_is_left_alone(tmp_path):
    dev = devices(tmp_path, 2)
    with (
        (dev / "davinci1").open() as held,
        running("cat", pass_fds=[held.fileno()]) as holder,
    ):
        held.close()
        wait_until(lambda: words(holder.pid) == ["cat"])
        with pytest.raises(Unavailable) as refused:
            setting(dev)
    (sentence,) = refused.value.faults
    assert sentence.startswith(f"an NPU is in use by process {holder.pid} (state ")
    assert refused.value.exit_code == 69


def test_where_a_supervisor_waits_its_npus_are_left_alone(tmp_path):
    dev = devices(tmp_path, 2)
    script = "import sys; sys.stdin.read()"
    with running(sys.executable, "-c", script, "-m", "ascend_supervisor") as supervisor:
        wait_until(lambda: words(supervisor.pid)[-1:] == ["ascend_supervisor"])
        with pytest.raises(Unavailable, match="a supervisor runs here, whose ranks need the NPUs"):
            setting(dev, others=[supervisor.pid])
        assert setting(dev).kind


def test_a_python_that_does_not_start_is_refused(tmp_path):
    for name in ("/bin/false", "no-such-python"):
        with pytest.raises(SettingsRefused, match="expected a Python that starts, found none"):
            setting(tmp_path, python=name)
