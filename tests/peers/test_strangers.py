"""Somebody else writes to the keys of a job in a real etcd: its ranks run on."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from tests.etcd.asking import at, put, value_of
from tests.peers.servers import PATIENT
from tests.running import wait_until

PREFIX = "/ascend-supervisor/test/"
DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def overwrite(job, values: Mapping[str, bytes | dict[str, object]]) -> None:
    """With these bytes, or with these fields of the record changed."""

    async def write() -> None:
        async with at(job.etcd) as client:
            for key, value in values.items():
                if isinstance(value, dict):
                    true = json.loads(await value_of(client, PREFIX + key) or b"{}")
                    value = json.dumps({**true, **value}).encode()  # noqa: PLW2901
                await put(client, PREFIX + key, value)

    anyio.run(write)


def read(job, key: str) -> dict[str, object]:
    """Without what is new whenever it is put again; empty for what is no record."""
    return {
        name: value
        for name, value in whole(job, key).items()
        if name not in {"stamp", "again", "epoch"}
    }


def whole(job, key: str) -> Any:
    async def look() -> bytes | None:
        async with at(job.etcd) as client:
            return await value_of(client, PREFIX + key)

    try:
        return json.loads(anyio.run(look) or b"{}")
    except (ValueError, RecursionError):
        return {}


def is_true(job, truth: Mapping[str, Any], keys: Sequence[str]) -> bool:
    return all(read(job, key) == truth[key] for key in keys)


def test_what_a_stranger_writes_costs_a_sentence_and_no_rank(job):
    servers = job.start_all(*PATIENT)
    truth = {key: read(job, key) for key in ("epoch", "about", "alive/1", "server/1", "server/2")}
    overwrite(job, {"alive/7": DEEP, f"server/{'1' * 5000}": b"{}", "notes": b"x" * 1_000_000})
    overwrite(job, {f"notes/{number}": b"x" * 1_000_000 for number in range(70)})
    overwritten: list[dict[str, bytes | dict[str, object]]] = [
        {"epoch": DEEP},
        {"epoch": {"phase": "end", "exit_code": 256}},
        {"epoch": {"phase": "end", "exit_code": 0}},
        {"epoch": {"generation": 2**63 - 1}},
        {"epoch": {"generation": 2**64, "exit_code": 10**30}},
        {"epoch": {"stamp": "another"}},
        {"about": b"no record", "alive/1": b"junk", "server/2": DEEP},
        {"alive/1": {"incarnation": "stranger"}},
        {"server/1": {"has_left": True}},
    ]
    for values in overwritten:
        overwrite(job, values)
        wait_until(partial(is_true, job, truth, tuple(values)))
    job.signal_rank(1, signal.SIGUSR1)
    job.all_up(1)
    assert all(len(server.all("restart.scheduled")) == 1 for server in servers)
    # Who puts a record right has seen it; the other one may be late, and see the next.
    told = [event["message"] for server in servers for event in server.all("diagnostic")]
    damage = 'epoch: expected a record of this job, found b\'{"x":[[['
    assert any(message.startswith(damage) for message in told)
    assert not any(server.all("defect") for server in servers)
    job.succeed(1)
