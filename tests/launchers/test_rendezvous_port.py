"""Which of the processes of a plan is met by the others, and at which port."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.model_arts import declared_table
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.mindspore import MindSporeLauncher
from ascend_supervisor.launchers.msrun import MsrunLauncher
from ascend_supervisor.launchers.ranktable import RankTableLauncher
from ascend_supervisor.launchers.torch_ddp import TorchDdpLauncher
from ascend_supervisor.launchers.torchrun import TorchrunLauncher
from ascend_supervisor.process_spec import port_of
from tests.launchers.test_launchers import COMMAND, ONE_SERVER, PLACE, TWO_SERVERS, plan


@pytest.mark.parametrize(
    ("launcher", "environ", "ports"),
    [
        (RankTableLauncher, {}, [29500, None]),
        (RankTableLauncher, {"MASTER_PORT": "29600"}, [29600, None]),
        (TorchDdpLauncher, {}, [29500]),
        (TorchrunLauncher, {}, [18888]),
        (TorchrunLauncher, {"MA_TORCHRUN_MASTER_PORT": "any"}, [None]),
        (MsrunLauncher, {}, [8118]),
        (MindSporeLauncher, {}, [8118, None, None]),
    ],
)
def test_on_the_first_server_one_process_is_met_by_the_others(launcher, environ, ports):
    specs = plan(launcher, {**TWO_SERVERS, **environ})
    assert [spec.port for spec in specs] == ports


@pytest.mark.parametrize(
    "launcher",
    [RankTableLauncher, TorchDdpLauncher, TorchrunLauncher, MsrunLauncher, MindSporeLauncher],
)
def test_on_the_others_there_is_none(launcher):
    assert {spec.port for spec in plan(launcher, TWO_SERVERS, 1)} == {None}


def test_a_torchrun_that_is_alone_takes_any_free_port():
    (spec,) = plan(TorchrunLauncher, ONE_SERVER)
    assert spec.port is None


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "65536", "1" * 5000, "٣"])
def test_what_is_no_port_is_left_to_the_program(text):
    assert port_of(text) is None


@pytest.mark.parametrize(
    ("launcher", "given", "port"),
    [
        (RankTableLauncher, {}, 41000),
        (TorchDdpLauncher, {}, 41000),
        (MsrunLauncher, {}, 41000),
        (MindSporeLauncher, {}, 41000),
        (RankTableLauncher, {"MASTER_PORT": "29600"}, 29600),
        (MindSporeLauncher, {"MASTER_PORT": "29600"}, 29600),
    ],
)
def test_a_port_that_the_job_keeps_takes_the_place_of_the_usual_one(launcher, given, port):
    declared = declared_table(ONE_SERVER)
    here = Here(0, declared.entries[0], PLACE, port=41000)
    specs = launcher(Boot(COMMAND, given, 0)).plan(declared, here, 0)
    assert [spec.port for spec in specs if spec.port] == [port]
    told = {word for spec in specs for word in (*spec.argv, *spec.environ.values()) if word}
    assert any(word.endswith(str(port)) for word in told)
