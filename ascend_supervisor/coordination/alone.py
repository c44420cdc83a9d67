"""This server decides for itself: it holds every rank, or leaves the others to the scheduler.

It counts generations and what was spent of the restart budget.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import count

import anyio
from msgspec.structs import replace

from ascend_supervisor.life import Bar, JobSeen, Placed, Start
from ascend_supervisor.outcome import Ended, Failure, Fault, Outcome
from ascend_supervisor.restart_policy import Decision, Restart, RestartBudget, Stop, decide

OTHER_SERVERS = Bar(
    "other servers hold ranks of this job, and cannot be restarted from here, so the first failure "
    "ends this server",
    "with --follow-cluster the ranks restart when the cluster has replaced pods or reset NPUs; "
    "with --peers the servers restart together; else --restarts applies where one server holds all "
    "ranks",
)
OTHER_POD = Bar(
    "the ranks need a process in another pod, which cannot be restarted from here, so the first "
    "failure ends this server",
    "--restarts applies where all processes of the job run in one pod",
)

FOLLOWED = Bar(
    "other servers hold ranks of this job, and the cluster says when all of them start again",
    "a restart that the cluster asks for is not charged; --restarts applies where one server holds "
    "all ranks",
)


def without_restarts(start: Start, limit: int, *, joins_others: bool, elsewhere: Bar) -> Start:
    """``start``, with no restarts left, and why, unless all that it needs is on this server.

    ``limit`` is what was asked for: without any, there is nothing to explain. ``joins_others``:
    the ranks need a process in another pod. ``elsewhere`` is why, where other servers hold ranks.
    """
    if not limit or (start.holds_all_ranks and not joins_others):
        return start
    bar = OTHER_POD if start.holds_all_ranks else elsewhere
    return replace(start, restarts_left=0, bar=bar)


class Ledger:
    """``now`` gives seconds of a clock; ``random`` numbers in [0, 1), for the back-off."""

    def __init__(
        self, budget: RestartBudget, now: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self._budget = budget
        self._now = now
        self._random = random
        self._numbers = count()
        self.generation = next(self._numbers)

    @property
    def limit(self) -> int:
        """How many restarts were asked for."""
        return self._budget.limit

    @property
    def restarts_left(self) -> int:
        return self._budget.left(self._now())

    def is_never_retried(self, failure: Failure) -> bool:
        """Whether the user has ruled out a restart after this failure."""
        return self._budget.rules_out(failure) is not None

    def settle_recovered(self, ended: Ended) -> Decision:
        """As ``settle``, after an incident of the cluster, which counts its restarts itself.

        The restart is free however long the row of free ones is; its back-off still grows.
        """
        self._budget = replace(self._budget, free_since=self._now())
        return self.settle(ended, holds_all_ranks=True)

    def settle(self, ended: Ended, *, holds_all_ranks: bool) -> Decision:
        """What follows a generation; a restart is written down."""
        decision = decide(
            ended,
            self._budget,
            self._now(),
            jitter=self._random(),
            holds_all_ranks=holds_all_ranks,
        )
        if isinstance(decision, Restart):
            self._budget = decision.budget
            self.generation = next(self._numbers)
        return decision


class Alone:
    """``placed`` waits for our place in the rank table, or raises a Refusal, as ``gather`` does.

    ``joins_others``: the ranks need a process in another pod, even if all ranks are here.
    ``elsewhere`` says why no restart follows where other servers hold ranks.
    """

    def __init__(
        self,
        placed: Callable[[], Awaitable[Placed | Stop]],
        ledger: Ledger,
        *,
        joins_others: bool = False,
        elsewhere: Bar = OTHER_SERVERS,
    ) -> None:
        self._placed = placed
        self._ledger = ledger
        self._joins_others = joins_others
        self._elsewhere = elsewhere

    def joined(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    def seen(self) -> JobSeen | None:
        return None

    def end_wait(self) -> bool:
        return False

    async def gather(self) -> Start | Stop:
        at = await self._placed()
        if isinstance(at, Stop):
            return at
        ledger = self._ledger
        start = Start(ledger.generation, at.found, at.node_rank, at.entry, ledger.restarts_left)
        joins_others, elsewhere = self._joins_others, self._elsewhere
        return without_restarts(start, ledger.limit, joins_others=joins_others, elsewhere=elsewhere)

    async def still(self, start: Start) -> bool:  # noqa: ARG002  (nobody else could withdraw it)
        return True

    async def must_end(self, start: Start) -> Fault:  # noqa: ARG002
        await anyio.sleep_forever()
        raise AssertionError

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        pass

    async def settle(self, start: Start, ended: Ended) -> Decision:
        return self._ledger.settle(ended, holds_all_ranks=self.is_alone(start))

    def is_alone(self, start: Start) -> bool:
        """Whether all that the job needs is on this server."""
        return start.holds_all_ranks and not self._joins_others
