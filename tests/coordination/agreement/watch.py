"""What must hold whatever happens, checked at each write, start and end."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import Exit, RecordChange
from ascend_supervisor.coordination.agreement.leaving import LEAVES
from ascend_supervisor.coordination.agreement.records import EPOCH_KEY, Epoch, Phase, decode
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.errors import TABLE_NOT_READY
from ascend_supervisor.etcd.values import Put
from ascend_supervisor.outcome import Fault
from tests.coordination.agreement.process import Process, Reach

INCIDENTS = {"fail", "kill", "freeze", "cut", "unable"}
"""Faults that may cost a restart, one each."""
CLEAN = {"fail", "kill", "term", "unfit", "unable", "stuck"}
"""Faults by which nobody is away for a while, and nothing is lost."""
LOSSES = {"wipe", "scribble"}
"""Faults by which data are lost: all, or one key, perhaps of a server that is gone."""
ALONE = (69, 143)
"""Exit codes with which a server ends without the others: it was cut off, or told to stop."""


LEFT = "a spare has taken its place"
"""In the reason of a server that has failed too often."""


class Violation(Exception):
    """What must hold does not; ``name`` says what."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class Watch(Struct, frozen=True, cache_hash=True):
    """What has happened so far, as far as it matters to what must hold.

    ``incidents`` is what the faults may cost. ``ends`` are exit codes, by job. ``won`` are jobs
    that have succeeded everywhere. ``latest`` is the last generation started, by job. ``is_calm``:
    no fault came, and no newcomer. ``may_forget``: data were lost, and with them what was free.
    ``may_differ``: they were lost between an end and its last reader. Both are not promised.
    ``failed`` are the processes that INCIDENTS have hit, one name for each time. ``is_steady``:
    nobody was away for a while, nothing lost.
    """

    incidents: int = 0
    ends: tuple[tuple[str, int], ...] = ()
    won: frozenset[str] = frozenset()
    latest: tuple[tuple[str, int], ...] = ()
    is_calm: bool = True
    may_forget: bool = False
    may_differ: bool = False
    failed: tuple[str, ...] = ()
    is_steady: bool = True

    def with_hit(self, fault: str, *whom: str) -> Watch:
        """Known only where servers may leave, because it makes many worlds of one."""
        counts = fault in INCIDENTS or fault in {"unfit", "stuck"}
        failed = tuple(sorted((*self.failed, *whom[:1]))) if counts else self.failed
        is_steady = self.is_steady and fault in CLEAN
        return replace(self, failed=failed, is_steady=is_steady)

    def after_fault(self, fault: str, epoch: Epoch | None) -> Watch:
        if fault in LOSSES:
            has_ended = epoch is not None and epoch.phase is Phase.END
            return replace(
                self,
                won=frozenset(),
                is_calm=False,
                may_forget=True,
                may_differ=self.may_differ or has_ended or fault != "wipe",
            )
        return replace(
            self,
            is_calm=False,
            incidents=self.incidents + (fault in INCIDENTS),
        )


def has_started(watch: Watch, starter: Process, everybody: Iterable[Process]) -> Watch:
    """Nobody runs ranks of another generation, or of another roster."""
    life = starter.ranks
    assert life is not None
    for one in everybody:
        if one.ranks is not None and one.ranks != life:
            raise Violation("overlap", f"{starter.name} starts {life}, {one.name} runs {one.ranks}")
    latest = dict(watch.latest)
    if latest.get(life.job, -1) > life.generation:
        raise Violation("order", f"{starter.name} starts {life.generation} after a later one")
    if life.job in watch.won:
        raise Violation("success", f"{starter.name} starts ranks of a job that has succeeded")
    latest[life.job] = life.generation
    return replace(watch, latest=tuple(sorted(latest.items())))


def has_written(watch: Watch, before: View, after: View, act: RecordChange) -> Watch:
    """The generation does not fall, and one incident costs one restart."""
    old, new = before.epoch, after.epoch
    if new is None:
        return watch
    if (
        old is not None
        and old.job == new.job
        and new.order < old.order
        and new.phase is not Phase.END
    ):
        raise Violation("order", f"{new} is written over {old}")
    is_start = new.phase is Phase.RUN and (old is None or old.phase is Phase.GATHER)
    is_again = after.about is not None and after.about.again
    is_known = not before.damaged  # else nobody counts as ready here
    if is_start and is_known and not is_again and not set(before.living) <= set(before.ready):
        raise Violation("forbidden", f"{new} is written, and not all are ready")
    if new.job in watch.won and (new.phase is Phase.GATHER or new.exit_code):
        raise Violation("success", f"{new} is written, although the job has succeeded")
    if after.about is not None and not watch.may_forget:
        charged = len(after.about.charges.spent)
        if charged > watch.incidents:
            raise Violation("budget", f"{charged} restarts for {watch.incidents} incidents")
    if act.why == LEAVES:
        _has_left_well(after)
    if _is_won(after):
        watch = replace(watch, won=watch.won | {new.job})
    return watch


def _has_left_well(after: View) -> None:
    """Each server that has left has a spare of its own."""
    assert after.epoch is not None
    assert after.about is not None
    now = (one.server for one in after.about.left if one.generation == after.epoch.generation)
    left = set(now) - set(after.living)
    if len(left) > len(after.spares):
        raise Violation("place", f"{left} are left, for {len(after.spares)} spares")


def is_given_up(watch: Watch, after: View, everybody: Iterable[Process], servers: int) -> None:
    """Nobody gives the job up while as many servers as it needs are there, and could run it."""
    epoch, about = after.epoch, after.about
    if epoch is None or about is None or epoch.phase is not Phase.END or not watch.is_steady:
        return
    is_for_want = about.cause is None or bool(about.cause.also_lost)
    able = [one for one in everybody if one.is_here and one.situation.stop is None and one.is_able]
    if about.left and epoch.exit_code and is_for_want and len(able) >= servers:
        raise Violation("chance", f"{epoch} is written, and {len(able)} servers are there")


def are_ready(view: View, everybody: Iterable[Process]) -> None:
    """The others do not count on a server whose files forbid a start."""
    for one in everybody:
        mark = view.ready.get(one.memory.index) if one.memory.index is not None else None
        is_its = mark is not None and mark.incarnation == one.name
        is_gathering = view.epoch is not None and view.epoch.phase is Phase.GATHER
        if is_its and is_gathering and one.situation.table is None and one.reach is Reach.FINE:
            raise Violation("forbidden", f"{one.name} is ready, and may not start")


def has_decided(one: Process, view: View, servers: int) -> None:
    """What it wants to write now it may.

    A server that was told to stop before it took part writes nothing. One that is unable does not
    end the job while a spare waits that no other place needs, and costs nothing then.
    """
    about = one.pending.about if one.pending is not None else None
    has_spare = len(view.spares) > servers - len(view.living)
    if about is not None and one.situation.unable and has_spare:
        is_its = about.cause is not None and about.cause.reason in _reasons(one)
        if is_its and _ends_job(one.pending):
            raise Violation("spare", f"{one.name} ends the job, and {[*view.spares]} wait")
        if view.about is not None and len(about.charges.spent) > len(view.about.charges.spent):
            raise Violation("spare", f"{one.name} is charged, and {[*view.spares]} wait")
    is_told = one.situation.stop is not None and one.memory.index is None
    if one.pending is not None and is_told and not _is_won(view):
        raise Violation("stopped", f"{one.name} was told to stop, and wants to {one.pending.why}")


def _reasons(one: Process) -> set[str]:
    """By which it would end the job."""
    obstacle, verdict = one.situation.obstacle, one.situation.verdict
    told = {obstacle.reason} if obstacle is not None else set()
    if verdict is not None and isinstance(verdict.outcome, Fault):
        told.add(verdict.outcome.reason)
    return told


def _ends_job(act: RecordChange | None) -> bool:
    return act is not None and any(
        isinstance(one, Put)
        and one.key == EPOCH_KEY
        and decode(one.key, one.value, Epoch).phase is Phase.END
        for one in act.then
    )


def _is_won(view: View) -> bool:
    """Whether all ranks of the generation that runs have ended with 0."""
    roster = view.about.roster if view.about else ()
    return (
        view.epoch is not None
        and view.epoch.phase is Phase.RUN
        and bool(roster)
        and all(
            index in view.done and view.done[index].incarnation == seat.incarnation
            for index, seat in enumerate(roster)
        )
    )


def has_ended(watch: Watch, one: Process, act: Exit) -> Watch:
    """Nothing of it runs, and all who have read the end of a job end alike."""
    if one.ranks is not None and not act.kills:
        raise Violation("left", f"{one.name} exits while its ranks run")
    ended, code = one.memory.ended, act.exit_code
    if ended is not None and ended.exit_code == code:
        ends = dict(watch.ends)
        if ends.setdefault(ended.job, code) != code and not watch.may_differ:
            raise Violation("agreement", f"{one.name} ends with {code}, others with {ends}")
        watch = replace(watch, ends=tuple(sorted(ends.items())))
    elif ended is not None:
        raise Violation("agreement", f"{one.name} has read {ended}, and ends with {code}")
    # Not promised: a spare that first hears of the job when all have left waits for another one.
    has_missed_it = code == TABLE_NOT_READY and not watch.won <= set(one.memory.jobs)
    if watch.is_calm and code and not has_missed_it:
        raise Violation("success", f"{one.name} ends with {code}, although nothing has happened")
    if LEFT in act.reason and one.name not in watch.failed:
        raise Violation("blame", f"{one.name} leaves, and only others have failed")
    has_won = one.finished is not None and one.finished.job in watch.won
    if has_won and code and code not in ALONE:
        raise Violation("success", f"{one.name} ends with {code}, but its job has succeeded")
    return watch
