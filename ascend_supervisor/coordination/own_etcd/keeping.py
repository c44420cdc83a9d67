"""Keeps the job's own etcd running: started, started again some times, told each time."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import anyio
from msgspec import Struct

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.own_etcd.process import EtcdProcess, Surroundings
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.etcd.values import Get, Key
from ascend_supervisor.events.own_etcd import EtcdEnded
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.tasks.race import first
from ascend_supervisor.untrusted_text import plain

START_SECONDS = 60.0
"""Until it answers for the first time; it elects itself in a second or two."""
LOOK_SECONDS = 0.1
FIRST_PAUSE_SECONDS = 1.0
STEADY_SECONDS = 60.0
"""After so long a run the tries are counted anew."""
MOST_TRIES = 5


class Pauses(Struct, frozen=True):
    """How often it has ended soon after its start, and so how long to wait before the next one."""

    tries: int = 0

    def after(self, uptime: float) -> Pauses:
        """After a run of ``uptime`` seconds."""
        return Pauses(1 if uptime >= STEADY_SECONDS else self.tries + 1)

    @property
    def seconds(self) -> float | None:
        """1, 2, 4 and so on; None: it is not tried again."""
        if self.tries > MOST_TRIES:
            return None
        return float(FIRST_PAUSE_SECONDS * 2 ** (self.tries - 1))


async def start_first(process: EtcdProcess, etcd: Etcd, machine: Surroundings) -> None:
    """Start it, and wait until it answers; raises Unavailable if it does not."""
    try:
        process.start()
    except OSError as error:
        raise Unavailable(f"--peers first: etcd cannot be started: {reason_of(error)}") from error
    how: str | None = f"has not answered within {START_SECONDS:g} s"
    with anyio.move_on_after(START_SECONDS):
        how = await first(process.ended, partial(_answered, etcd))
    if how is not None:
        last = f": {plain(process.last_line)}" if process.last_line else ""
        log = plain(str(machine.log))
        raise Unavailable(f"--peers first: etcd {how}{last}; see its log, {log}")


async def keep(process: EtcdProcess, machine: Surroundings) -> None:
    """Start it again whenever it has ended; returns when it is not tried again."""
    pauses = Pauses()
    began = machine.clock.elapsed()
    how = await process.ended()
    while True:
        pauses = pauses.after(machine.clock.elapsed() - began)
        machine.report(EtcdEnded(how, plain(str(machine.log)), pauses.seconds))
        if pauses.seconds is None:
            return
        await anyio.sleep(pauses.seconds)
        began = machine.clock.elapsed()
        how = await _again(process)


async def _again(process: EtcdProcess) -> str:
    try:
        process.start()
    except OSError as error:
        return f"cannot be started: {reason_of(error)}"
    return await process.ended()


async def _answered(etcd: Etcd) -> None:
    while True:
        with suppress(EtcdError):
            await etcd.read(Get(Key(records.job_prefix(""))))
            return
        await anyio.sleep(LOOK_SECONDS)
