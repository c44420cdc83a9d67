"""A job of two pods on MindCluster, and a third pod that takes the second one's place.

Each is a container as far as a job can tell: a network of its own, and a supervisor as PID 1.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.running import Running
from tests.two_servers import Server

CARDS = 1
"""Of each pod."""
AS_PID_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


class ClusterFiles:
    """What Ascend Operator and Volcano write for a job: in place, truncated before."""

    def __init__(self, root: Path) -> None:
        self.table = root / "serverid" / "devindex" / "config" / "hccl.json"
        self.reset = root / "restore" / "reset" / "config" / "reset.json"
        for file in (self.table, self.reset):
            file.parent.mkdir(parents=True)
        self.set_retry_time(0)

    def complete_table(self, servers: Sequence[Server], cards: int) -> None:
        """Template 1; ranks are numbered in the order of the servers."""
        _write(
            self.table,
            {
                "status": "completed",
                "version": "1.0",
                "server_count": str(len(servers)),
                "server_list": [
                    _entry(server, range(node * cards, (node + 1) * cards))
                    for node, server in enumerate(servers)
                ],
            },
        )

    def withdraw_table(self) -> None:
        empty = {"version": "1.0", "server_count": "0", "server_list": []}
        _write(self.table, {"status": "initializing", **empty})

    def set_retry_time(self, times: int) -> None:
        """How often pods of the job have been replaced."""
        _write(
            self.reset,
            {
                "RankList": [],
                "UpdateTime": 1_700_000_000 + times,
                "RetryTime": times,
                "FaultFlushing": False,
                "GracefulExit": 0,
                "RestartFaultProcess": False,
            },
        )


def _entry(server: Server, ranks: Sequence[int]) -> dict[str, object]:
    network = server.address.rpartition(".")[2]
    devices = [
        {"device_id": str(n), "device_ip": f"192.168.{network}.{n}", "rank_id": str(rank)}
        for n, rank in enumerate(ranks)
    ]
    return {"server_id": server.address, "host_ip": server.address, "device": devices}


def _write(file: Path, document: object) -> None:
    file.write_text(json.dumps(document))


class PodJob:
    """``start`` a pod on a server; its supervisor follows the files of the cluster."""

    def __init__(
        self,
        supervised: Callable[..., Running],
        root: Path,
        files: ClusterFiles,
        *options: str,
        environ: Mapping[str, str],
        deadline: float,
    ) -> None:
        self.files = files
        self._supervised = supervised
        self._root = root
        self._environ = environ
        self._deadline = deadline
        self._options = (
            *("--follow-cluster", "--release-delay", "0"),
            *("--rank-table", str(files.table), "--reset-file", str(files.reset)),
            *options,
        )

    def start(self, server: Server, *command: str, options: Sequence[str] = ()) -> Running:
        return self._supervised(
            *(*self._options, *options, "--", *command),
            root=self._root / server.name,
            before=(*server.within, *AS_PID_1),
            deadline=self._deadline,
            environ={
                "XDL_IP": server.address,
                "GLOO_SOCKET_IFNAME": server.interface,
                **self._environ,
            },
        )


def lose(pod: Running, server: Server) -> None:
    """Its node loses its power: the others hear nothing, and their connections do not end."""
    server.unplug()
    kill(pod)


def kill(pod: Running) -> None:
    """All its processes are killed at once; its network is up, so its connections end."""
    pod.send(signal.SIGKILL)
    assert pod.end() != 0  # util-linux 2.38's unshare does not say that it was a signal


def delete(pod: Running) -> None:
    """Kubernetes deletes it."""
    pod.send(signal.SIGTERM)
    assert pod.end() == 128 + signal.SIGTERM
    assert pod.events[-1]["exit_code"] == 128 + signal.SIGTERM


def survives_one_incident(pod: Running) -> tuple[dict[str, Any], dict[str, Any]]:
    """It ended well after ONE restart, which was free; gives the incident and the restart."""
    assert pod.end() == 0
    (incident,) = pod.all("cluster.incident")
    (restart,) = pod.all("restart.scheduled")
    assert restart["free"]
    assert [event["next"] for event in pod.all("generation.ended")] == ["restart", "stop"]
    assert not pod.survivors()
    return incident, restart


def begun(pod: Running, generation: int) -> set[str]:
    """The steps in which the ranks of a pod began; all of them said so."""
    return _said(pod, generation, r"of 2 ranks begins at step (\d+)")


def digests(pod: Running, generation: int, ranks: int = CARDS) -> set[str]:
    """What the parameters of the ranks of a pod were in the end."""
    return _said(pod, generation, r"parameters ([0-9a-f]{64})", ranks)


def _said(pod: Running, generation: int, what: str, ranks: int = CARDS) -> set[str]:
    """Below torchrun the ranks of a pod share a pipe, and so lines."""
    lines = (event["msg"] for event in pod.all("output", generation=generation))
    found = re.findall(what, "\n".join(lines))
    assert len(found) == ranks
    return set(found)
