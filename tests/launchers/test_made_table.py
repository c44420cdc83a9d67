"""Where ranks meet, if the servers have made the rank table: a spare may have the first place."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.made_table import Server, ServerDevice, made_table
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.mindspore import MindSporeLauncher
from ascend_supervisor.launchers.msrun import MsrunLauncher
from ascend_supervisor.launchers.ranktable import RankTableLauncher
from ascend_supervisor.launchers.torch_ddp import TorchDdpLauncher
from ascend_supervisor.launchers.torchrun import TorchrunLauncher
from tests.launchers.test_launchers import COMMAND, PLACE, mpirun


@pytest.mark.parametrize(
    "launcher",
    [
        *(TorchrunLauncher, MsrunLauncher, MindSporeLauncher, TorchDdpLauncher),
        *(RankTableLauncher, mpirun()),
    ],
)
@pytest.mark.parametrize("node_rank", [0, 1])
def test_where_the_servers_make_the_table_no_method_meets_where_the_platform_says(
    launcher, node_rank
):
    servers = [
        Server(f"10.0.0.{7 - at}", (ServerDevice(0, f"192.168.0.{at}"),), str(at)) for at in (0, 1)
    ]
    table = made_table(servers).table
    environ = {"VC_WORKER_HOSTS": "w-0.j,w-1.j", "MASTER_ADDR": "w-0.j"}
    boot = Boot(COMMAND, environ, 3)
    here = Here(node_rank, table.entries[node_rank], PLACE)
    specs = launcher(boot).plan(table, here, 0)
    told = [word for spec in specs for word in (*spec.argv, *map(str, spec.environ.values()))]
    assert any("10.0.0.7" in word for word in told)
    assert not any("w-0" in word for word in told)
