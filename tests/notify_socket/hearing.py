"""A generation of real processes that find a notify socket, and the listener that hears them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.files.watch import Removals
from ascend_supervisor.launchers.rank_environment import rank_names
from ascend_supervisor.life import Life, Plan, Start
from ascend_supervisor.notify_socket.listener import Listener
from ascend_supervisor.notify_socket.senders import Senders
from ascend_supervisor.outcome import Fault, Patience
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.ownership import Mark
from ascend_supervisor.workers.generation import Company, run_generation
from ascend_supervisor.workers.preparation import prepare
from tests.workers.test_generation import Stage, silent

MARK = Mark("OWNER", "1.1@here")
SAY = """\
import os, socket, subprocess, sys, time


def say(text):
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(text.encode(), address if address[0] == "/" else chr(0) + address[1:])


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)


"""
WAIT = "\ntime.sleep(600)\n"
"""At the end of what a rank does: it is alive until the test has seen enough."""


@dataclass
class Hearing:
    """``life`` is that of the generation that runs; its ranks are 0 to ``devices`` - 1."""

    stage: Stage
    devices: int = 8
    removals: Removals = field(default_factory=Removals)
    life: Life = field(init=False)
    listener: Listener = field(init=False)

    def __post_init__(self) -> None:
        children, clock = self.stage.children, self.stage.clock
        senders = partial(Senders, mark=MARK, names=rank_names("ranktable"))
        self.listener = Listener(
            senders, children.spare_descriptor, clock, self.stage.events.append, self.removals
        )

    @asynccontextmanager
    async def listening(self, state_file: Path | None = None) -> AsyncIterator[Hearing]:
        """The socket is open and read; a task of asyncio, because fixtures change theirs."""
        listens = asyncio.ensure_future(self.listener.listen())
        await self.listener.open(state_file or self.stage.root / "state.json")
        await asyncio.sleep(0)  # a turn for what reads it
        yield self
        await self.listener.remove_file()
        listens.cancel()
        with suppress(asyncio.CancelledError):
            await listens

    @property
    def variables(self) -> dict[str, str]:
        """What every rank gets."""
        assert self.listener.address is not None
        return {"NOTIFY_SOCKET": self.listener.address, MARK.variable: MARK.value}

    def rank(self, rank: int, source: str, **more: Any) -> ProcessSpec:
        environ = {**self.variables, **more.pop("environ", {})}
        return self.stage.spec(rank, SAY + source + WAIT, environ=environ, **more)

    def launcher(self, source: str, **more: Any) -> ProcessSpec:
        """A process that is no rank."""
        return replace(self.rank(0, source, **more), rank=None, local_rank=None, title="launcher")

    def status(self, rank: int) -> str | None:
        """What this rank has said last."""
        return self.life.notified[rank].status if rank in self.life.notified else None

    async def until(self, enough: Callable[[], object], *specs: ProcessSpec) -> None:
        """Run a generation of ``specs`` until there is enough, and end it."""
        found = standalone_table(self.devices)
        plan = Plan(Start(0, found, 0, found.table.entries[0], 0), specs)
        plan = await prepare(plan, self.stage.root / "table.json", self.stage.runtime)
        self.life = Life(plan)
        self.listener.attend(self.life)

        async def seen() -> Fault:
            while not enough():
                await anyio.sleep(0.005)
            return Fault("the test has seen enough", UNAVAILABLE)

        company = Company([seen], silent, self.stage._look)
        with anyio.fail_after(40):
            ended = await run_generation(
                self.life, self.stage.runtime, self.stage.interrupts, Patience(0.0, 5.0), company
            )
        assert isinstance(ended.outcome, Fault), ended
