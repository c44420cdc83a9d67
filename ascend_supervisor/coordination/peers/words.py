"""The last word of every server of the job, from what is read of all; pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import is_loopback
from ascend_supervisor.coordination.agreement.history import LeftServer
from ascend_supervisor.coordination.agreement.records import Epoch, Phase
from ascend_supervisor.coordination.agreement.view import View, merged
from ascend_supervisor.life import ServerPhase, ServerSeen


class Word(Struct, frozen=True):
    """What a server says, or what its silence means; first seen at ``since`` (CLOCK_BOOTTIME)."""

    phase: ServerPhase
    text: str
    since: float
    hosts: tuple[str, ...] = ()
    host: str = ""


ServerWords = tuple[Word, ...]
"""By index."""
MOST_UNHEARD = 16


def heard(known: ServerWords, view: View, servers: int, now: float) -> ServerWords:
    """The words after ``view``, which was read ``now``; one that has not changed keeps its time."""
    epoch = view.epoch
    if epoch is None:
        return known
    found = []
    for index in range(servers):
        phase = _phase(epoch, view, index)
        text = _text(epoch, view, index, phase)
        before = known[index] if index < len(known) else None
        is_new = before is None or (before.phase, before.text) != (phase, text)
        since = now if before is None or is_new else before.since
        member = view.members.get(index)
        names = (member.addresses, member.host) if member else ((), "")
        found.append(Word(phase, text, since, *names))
    return tuple(found)


class WordListener:
    """What is heard is put together only when somebody asks, or when much has come."""

    def __init__(self) -> None:
        self._words: ServerWords = ()
        self._unheard: list[tuple[View, int, float]] = []

    def listen(self, view: View, servers: int, now: float) -> None:
        """``view`` of a job of so many servers was read ``now``."""
        self._unheard.append((view, servers, now))
        if len(self._unheard) > MOST_UNHEARD:
            self._hear()

    @property
    def words(self) -> ServerWords:
        self._hear()
        return self._words

    def _hear(self) -> None:
        for view, servers, now in self._unheard:
            self._words = heard(self._words, view, servers, now)
        self._unheard.clear()


def seen(words: ServerWords, hosts: tuple[str, ...], now: float) -> tuple[ServerSeen, ...]:
    """``hosts`` are the names by index in the table, for servers that publish no address."""
    return tuple(
        ServerSeen(
            index,
            _host(word, hosts[index] if index < len(hosts) else ""),
            word.phase,
            word.text,
            max(0.0, now - word.since),
        )
        for index, word in enumerate(words)
    )


def _host(word: Word, label: str) -> str:
    """One address of the loopback is that of every machine, so it names none."""
    known = ", ".join(word.hosts) or label
    if word.host and (not known or is_loopback(known)):
        return word.host.partition(",")[0].removeprefix("pod ")
    return known


def _phase(epoch: Epoch, view: View, index: int) -> ServerPhase:
    match epoch.phase:
        case Phase.GATHER:
            return _in_gather(view, index)
        case Phase.RUN:
            return _in_run(view, index)
        case Phase.END:
            is_there = index in view.alive or not _is_known(view, index)
            return "ending" if is_there else "ended"


def _is_known(view: View, index: int) -> bool:
    """Whether anything was read of it; in a job of many servers it is what all are, else."""
    return view.known is None or index in view.known


def _in_gather(view: View, index: int) -> ServerPhase:
    if not _is_known(view, index):
        return "gathering"
    member = view.members.get(index)
    if member is None:
        return "missing"
    if member.has_left:
        return "left"
    if view.alive.get(index) != member.incarnation:
        return "lost"
    mark = view.ready.get(index)
    is_ready = mark is not None and mark.incarnation == member.incarnation
    return "ready" if is_ready else "gathering"


def _in_run(view: View, index: int) -> ServerPhase:
    roster = view.about.roster if view.about is not None else ()
    incarnation = roster[index].incarnation if index < len(roster) else None
    done, member = view.done.get(index), view.members.get(index)
    if not _is_known(view, index):
        return "running"
    if done is not None and done.incarnation == incarnation:
        return "done"
    if incarnation is not None and view.alive.get(index) == incarnation:
        return "running"
    return "left" if member is not None and member.has_left else "lost"


def _text(epoch: Epoch, view: View, index: int, phase: ServerPhase) -> str:
    """The failure of the server on which the root cause is, until the next generation runs."""
    generation = epoch.generation
    if (left := _left_before(view, index)) is not None and phase in {"left", "running"}:
        why = left.reason.partition(" (")[0]
        if phase == "left":
            return f"has left its place to a spare: it {why}"
        return f"runs generation {generation} in place of {left.host or 'a server'}, which {why}"
    cause = view.about.cause if view.about is not None else None
    if cause is not None and cause.server == index and epoch.phase is not Phase.RUN:
        return cause.reason
    return {
        "missing": "has not come yet",
        "gathering": "ends its ranks, or waits for its rank table",
        "ready": f"is ready for generation {generation}",
        "running": f"runs generation {generation}",
        "done": "its ranks have all ended with 0",
        "left": "was told to stop",
        "lost": "has not confirmed to etcd that it lives",
        "ending": f"ends with exit code {epoch.exit_code}",
        "ended": f"has ended with exit code {epoch.exit_code}",
    }[phase]


def _left_before(view: View, index: int) -> LeftServer | None:
    """The server that has left this place last; None if it runs there again."""
    if view.about is None:
        return None
    latest = next((one for one in reversed(view.about.left) if one.server == index), None)
    is_running = view.epoch is not None and view.epoch.phase is Phase.RUN
    if latest is None or not is_running:
        return latest
    is_back = latest.incarnation in {seat.incarnation for seat in view.about.roster}
    return None if is_back else latest


class Others:
    def __init__(self) -> None:
        self._latest: View | None = None
        self._listener = WordListener()

    def look(self, view: View, servers: int, now: float) -> None:
        """``view`` of a job of so many servers was read ``now`` (seconds of CLOCK_BOOTTIME)."""
        self._latest = view = self._with_what_was_seen(view)
        self._listener.listen(view, servers, now)

    def _with_what_was_seen(self, view: View) -> View:
        """Of those of whom nothing was read now: what was read in the same phase, if it was."""
        latest = self._latest
        if view.known is None or latest is None or latest.epoch is None or view.epoch is None:
            return view
        same = latest.epoch.job == view.epoch.job and latest.epoch.order == view.epoch.order
        if not same or latest.epoch.phase is not view.epoch.phase:
            return view
        return merged(latest, view)

    @property
    def words(self) -> ServerWords:
        """The last word of every server, by index."""
        return self._listener.words

    @property
    def tables_of_newcomers(self) -> frozenset[str]:
        """With which tables servers are ready that had no part in the last generation."""
        view = self._latest
        if view is None or view.about is None:
            return frozenset()
        known = {seat.incarnation for seat in view.about.roster}
        marks = (view.ready[index] for index in view.prepared)
        return frozenset(mark.digest for mark in marks if known and mark.incarnation not in known)

    def missing(self, own: int | None, servers: int) -> tuple[int, ...]:
        """Those that were not ready for the next generation, as far as they are known.

        Empty as long as this server has no index: it waits for that.
        """
        if own is None:
            return ()
        latest = self._latest
        if latest is None:
            return tuple(index for index in range(servers) if index != own)
        ready = {own, *latest.prepared}
        return tuple(index for index in latest.those_known(servers) if index not in ready)

    def hosts(self, indices: Iterable[int]) -> tuple[str, ...]:
        """What names each of them to people; empty for one that was not seen."""
        members = self._latest.members if self._latest is not None else {}
        return tuple(one.shown if (one := members.get(index)) else "" for index in indices)

    def lost(self, own: int | None, servers: int) -> tuple[int, ...]:
        """Those of them that have no supervisor: it was lost, or has not come yet."""
        living = self._latest.living if self._latest is not None else ()
        return tuple(index for index in self.missing(own, servers) if index not in living)
