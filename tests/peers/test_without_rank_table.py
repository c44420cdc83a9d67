"""Servers of a job for which nobody writes a rank table, and spares beside them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.peers.servers import Job


def test_two_servers_make_one_table_and_meet_at_the_address_of_the_first(spared: Job):
    spared.servers = [spared.start(0, "--node-rank", "1"), spared.start(1, "--node-rank", "0")]
    ready = [server.wait_for("rank_table.ready") for server in spared.servers]
    assert [one["local_ranks"] for one in ready] == [[1], [0]]
    assert ready[0]["sha256"] == ready[1]["sha256"]
    assert [one["warnings"] for one in ready] == [[], []]
    for server, rank in zip(spared.servers, (1, 0), strict=True):
        server.wait_for("output", message=f"{rank} of 2 meets the others at 127.0.0.1")
        (file,) = Path(server.root).rglob("jobstart_hccl.json")
        table = json.loads(file.read_bytes())
        assert [one["host_ip"] for one in table["server_list"]] == ["127.0.0.1"] * 2
