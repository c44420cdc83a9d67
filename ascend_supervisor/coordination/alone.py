"""This server decides for itself: it holds every rank, or leaves the others to the scheduler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import anyio

from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.barred_restarts import without_restarts
from ascend_supervisor.coordination.restart_budget import Ledger
from ascend_supervisor.life import Start
from ascend_supervisor.outcome import Ended, Outcome
from ascend_supervisor.restart_policy import Decision

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


class Alone:
    """``table`` waits for the rank table, or raises a Refusal; ``gather`` may raise one too.

    ``joins_others``: the ranks need a process in another pod, even if all ranks are here.
    """

    def __init__(
        self,
        table: Callable[[], Awaitable[FoundTable]],
        identity: Identity,
        ledger: Ledger,
        *,
        joins_others: bool = False,
    ) -> None:
        self._table = table
        self._identity = identity
        self._ledger = ledger
        self._joins_others = joins_others

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    async def gather(self) -> Start:
        found = await self._table()
        node_rank, entry = find_entry(found.table, self._identity)
        ledger = self._ledger
        start = Start(ledger.generation, found, node_rank, entry, ledger.restarts_left)
        return without_restarts(start, ledger.limit, joins_others=self._joins_others)

    async def still(self, start: Start) -> bool:  # noqa: ARG002  (nobody else could withdraw it)
        return True

    async def must_end(self, start: Start) -> NoReturn:  # noqa: ARG002
        await anyio.sleep_forever()
        raise AssertionError

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        pass

    async def settle(self, start: Start, ended: Ended) -> Decision:
        holds_all_ranks = start.holds_all_ranks and not self._joins_others
        return self._ledger.settle(ended, holds_all_ranks=holds_all_ranks)
