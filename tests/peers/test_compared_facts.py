"""Servers of a job that are not alike: one sentence says which of them, before a rank starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.peers.servers import Job
from tests.running import Running


@pytest.fixture
def cann(tmp_path):
    """``cann(version)``: the variables of a server that has it."""

    def made(version: str) -> dict[str, str]:
        home = tmp_path / f"cann-{version}"
        (home / "runtime").mkdir(parents=True, exist_ok=True)
        (home / "runtime" / "version.info").write_text(f"Version={version}\n")
        return {"ASCEND_HOME_PATH": str(home)}

    return made


def start(job: Job, *how: dict[str, Any], options: tuple[tuple[str, ...], ...] = ()) -> None:
    """A server for each of ``how``; returns when all ranks run."""
    more = options or ((),) * len(how)
    job.servers = [
        job.start(index, *more[index], environ=environ) for index, environ in enumerate(how)
    ]
    for index in range(len(job.servers)):
        job.up(index)


def told(server: Running) -> list[list[str]]:
    return [event["differences"] for event in server.all("peers.differ")]


def test_a_server_with_another_cann_is_named_before_its_rank_starts(job, cann):
    start(job, cann("8.0.RC3"), cann("8.0.RC3"), cann("8.0.RC2"))
    event = job.servers[2].wait_for("peers.differ")
    (clause,) = event["differences"]
    assert clause.startswith("CANN differs: server 2 (")
    assert clause.endswith(") has 8.0.RC2, the 2 others have 8.0.RC3")
    assert event["msg"] == f"the servers of the job are not alike: {clause}"
    for server in job.servers:
        assert server.wait_for("peers.differ")["differences"] == [clause]
    assert any(
        server.all("peers.differ")[0]["seq"] < server.all("process.started")[0]["seq"]
        for server in job.servers
    )
    job.succeed(0)
    assert [len(told(server)) for server in job.servers] == [1, 1, 1]


def test_servers_that_are_alike_tell_nothing(job, cann):
    start(job, cann("8.0.RC3"), cann("8.0.RC3"), cann("8.0.RC3"))
    job.succeed(0)
    assert [told(server) for server in job.servers] == [[], [], []]


def test_a_server_with_other_code_is_named(job, tmp_path):
    codes = []
    for index in range(3):
        code = tmp_path / f"code-{index}"
        code.mkdir()
        (code / "train.py").write_text("print(1)\n" if index != 1 else "print(2)\n")
        codes.append(("--code-digest", str(code)))
    start(job, {}, {}, {}, options=tuple(codes))
    (clause,) = job.servers[1].wait_for("peers.differ")["differences"]
    assert clause.startswith("the code (--code-digest) differs: server 1 (")
    job.succeed(0)


def test_nothing_is_compared_where_servers_are_not_checked(job, cann):
    off = (("--server-check", "off"),) * 3
    start(job, cann("8.0.RC3"), cann("8.0.RC3"), cann("8.0.RC2"), options=off)
    job.succeed(0)
    assert [told(server) for server in job.servers] == [[], [], []]
    assert "/facts/" not in job.etcd.control("get", "--prefix", "--keys-only", "")


def test_a_directory_of_code_that_is_not_there_is_told(job, cann):
    missing = ("--code-digest", str(Path("/nowhere/at/all")))
    start(job, {}, {}, {}, options=(missing,) * 3)
    event = job.servers[0].wait_for("diagnostic", source="--code-digest")
    assert event["message"] == "/nowhere/at/all: no digest: No such file or directory"
    job.succeed(0)
