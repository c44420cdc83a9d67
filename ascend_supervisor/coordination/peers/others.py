"""What was seen last of the other servers of the job."""

from __future__ import annotations

from collections.abc import Iterable

from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.peers.words import Listener, Words


class Others:
    def __init__(self) -> None:
        self._latest: View | None = None
        self._listener = Listener()

    def look(self, view: View, servers: int, now: float) -> None:
        """``view`` of a job of so many servers was read ``now`` (seconds of CLOCK_BOOTTIME)."""
        self._latest = view
        self._listener.listen(view, servers, now)

    @property
    def words(self) -> Words:
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
        """Those that were not ready for the next generation.

        Empty as long as this server has no index: it waits for that.
        """
        if own is None:
            return ()
        ready = set(self._latest.prepared) if self._latest is not None else set()
        return tuple(sorted(set(range(servers)) - ready - {own}))

    def hosts(self, indices: Iterable[int]) -> tuple[str, ...]:
        """What names each of them to people; empty for one that was not seen."""
        members = self._latest.members if self._latest is not None else {}
        return tuple(one.shown if (one := members.get(index)) else "" for index in indices)

    def lost(self, own: int | None, servers: int) -> tuple[int, ...]:
        """Those of them that have no supervisor: it was lost, or has not come yet."""
        living = self._latest.living if self._latest is not None else ()
        return tuple(index for index in self.missing(own, servers) if index not in living)
