"""The servers of a job with an etcd of its own: real supervisors, which share this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ascend_supervisor.processes.pid import Pid
from tests.etcd.servers import CONTROL
from tests.peers.servers import DEADLINE_SECONDS, RANK, TTL
from tests.ports import free_port
from tests.running import Running

FENCE, TIMEOUT = 15, 40


class OwnEtcdJob:
    """``count`` servers with one rank each; server ``i`` is at 127.0.1.(i + 1)."""

    def __init__(self, root: Path, count: int, supervised: Callable[..., Running]) -> None:
        self._root = root
        self._supervised = supervised
        self.host = "127.0.1.1"
        self.port = free_port(self.host)
        self.table = root / "table.json"
        self.table.write_text(json.dumps(_table(count)))
        self.count = count
        self.servers: list[Running] = []

    def start_all(self, *options: str) -> list[Running]:
        self.servers = [self.start(index, *options) for index in range(self.count)]
        self.all_up(0)
        return self.servers

    def start(self, index: int, *options: str, environ: Mapping[str, str] | None = None) -> Running:
        root = self._root / f"server-{index}"
        root.mkdir(exist_ok=True)
        return self._supervised(
            *("--rank-table", str(self.table), "--node-rank", str(index)),
            *("--restart-delay", "0", "--restart-delay-max", "1", "--release-delay", "0"),
            *("--grace", "5", "--restarts", "3"),
            *("--peers", "first", "--peers-port", str(self.port), "--peers-job", "test"),
            *("--peers-ttl", str(TTL), "--peers-fence", str(FENCE)),
            *("--peers-timeout", str(TIMEOUT)),
            *options,
            *("--", sys.executable, "-c", RANK),
            root=root,
            environ=environ,
            deadline=DEADLINE_SECONDS,
        )

    def all_up(self, generation: int) -> None:
        for index, server in enumerate(self.servers):
            server.wait_for("output", generation=generation, msg=f"rank {index} runs")

    def rank(self, index: int, generation: int = 0) -> Pid:
        started = self.servers[index].wait_for("process.started", generation=generation, rank=index)
        found = Pid.of(started["child_pid"])
        assert found is not None
        return found

    def succeed(self, generation: int) -> None:
        """All ranks end with 0, and so does every server."""
        for index in range(self.count):
            self.rank(index, generation).send(signal.SIGUSR2)
        assert [server.end() for server in self.servers] == [0] * self.count

    def has_key(self, name: str) -> bool:
        """Whether the job's etcd holds this key of the job."""
        assert CONTROL is not None
        url = f"http://{self.host}:{self.port}"
        words = (CONTROL, "--endpoints", url, "get", f"/ascend-supervisor/test/{name}")
        environ = {"ETCDCTL_API": "3", "PATH": os.environ.get("PATH", "")}
        return subprocess.run(words, env=environ, check=True, capture_output=True).stdout != b""

    def data(self, index: int = 0) -> list[Path]:
        """The directories of etcd's data that a server has."""
        return list(self._root.glob(f"server-{index}/**/*.json.etcd"))

    def etcd(self, start: int = 0) -> Pid:
        """The process of the etcd that the first server has started, that often before."""
        events = self.servers[0].each("etcd.started")
        *_, event = (next(events) for _ in range(start + 1))
        found = Pid.of(event["child_pid"])
        assert found is not None
        return found


def _table(count: int) -> dict[str, Any]:
    """Template 1, with a server of one device for each."""
    return {
        "status": "completed",
        "version": "1.0",
        "server_count": str(count),
        "server_list": [
            {
                "server_id": f"127.0.1.{index + 1}",
                "device": [
                    {
                        "device_id": "0",
                        "device_ip": f"192.168.0.{index + 1}",
                        "rank_id": str(index),
                    }
                ],
            }
            for index in range(count)
        ],
    }
