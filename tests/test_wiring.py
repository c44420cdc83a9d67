"""What an option adds to every process, whatever the launch method."""

from __future__ import annotations

import os
from pathlib import PurePath
from shutil import which

import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.job_files import place_of
from ascend_supervisor.life import Start
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.program.planner import plan_of
from ascend_supervisor.settings.options import METHODS
from ascend_supervisor.settings.peers_checks import SHARED_OUTPUT
from ascend_supervisor.settings.precedence import Settings, read_settings
from tests.job_settings import launcher


def notified(spec: ProcessSpec) -> ProcessSpec:
    environ = {**spec.environ, "NOTIFY_FD": "9"}
    return replace(spec, environ=environ, descriptors=(*spec.descriptors, 9))


def bound(spec: ProcessSpec) -> ProcessSpec:
    return replace(spec, environ={**spec.environ, "CPUS": f"{spec.local_rank}"})


def planned(method: str) -> tuple[ProcessSpec, ...]:
    """The processes of a machine with two devices."""
    if method == "mpirun" and which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian's package openmpi-bin)")
    found = standalone_table(2)
    place = place_of({}, "here", mounted_log_exists=False, here=PurePath("/"))
    settings = read_settings(("--method", method, "--", "train.py"), {}, lambda _: b"")
    assert isinstance(settings, Settings)
    start = Start(0, found, 0, found.table.entries[0], 0)
    return plan_of(launcher(settings, os.environ), place, (), start).specs


@pytest.mark.parametrize("method", METHODS)
def test_silence_of_one_rank_is_limited_where_ranks_have_outputs_of_their_own(method):
    speaking = [spec for spec in planned(method) if spec.speaks_for_ranks]
    assert speaking
    have_own = all(spec.rank is not None or spec.worker_logs for spec in speaking)
    assert have_own == (method not in SHARED_OUTPUT)


@pytest.mark.parametrize("method", METHODS)
def test_every_process_gets_what_the_options_add_and_keeps_what_its_launcher_said(method):
    if method == "mpirun" and which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian's package openmpi-bin)")
    found = standalone_table(2)
    start = Start(0, found, 0, found.table.entries[0], 0)
    place = place_of({}, "here", mounted_log_exists=False, here=PurePath("/"))
    settings = read_settings(("--method", method, "--", "train.py"), {}, lambda _: b"")
    assert isinstance(settings, Settings)
    made = launcher(settings, os.environ)
    bare = plan_of(made, place, (), start).specs
    specs = plan_of(made, place, (notified, bound), start).specs
    assert specs
    assert specs == tuple(bound(notified(spec)) for spec in bare)
    for spec in specs:
        assert (spec.environ["NOTIFY_FD"], spec.descriptors) == ("9", (9,))
