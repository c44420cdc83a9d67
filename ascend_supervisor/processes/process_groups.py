"""Process groups whose leader is not an unreaped child of ours: their numbers may be reused.

The kernel may reuse the number of a group as soon as the group is empty. So a group is ours only
while a process that was seen in it is still in it, and each member is signalled by its identity.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.pid import Pid


class ProcessGroups:
    """Groups of our descendants; zombies are members too."""

    def __init__(self) -> None:
        self._members: dict[int, set[Pid]] = {}

    def add(self, leaders: Iterable[Pid]) -> None:
        """Add groups by their leaders, which were just seen."""
        for leader in leaders:
            self._members.setdefault(leader.number, set()).add(leader)

    def add_groups_of(self, members: Iterable[Pid], apart_from: int | None = None) -> None:
        """Add the groups of processes that were just seen, except the group ``apart_from``.

        Raises OSError at EMFILE and the like.
        """
        for pid in members:
            stat = proc.stat(pid.number)
            if stat is not None and stat.start == pid.start and stat.group != apart_from:
                self._members.setdefault(stat.group, set()).add(pid)

    def add_left_behind(self, number: int) -> None:
        """Add the rest of a group whose leader was a child of ours and has just been reaped.

        If /proc cannot be read, it counts as empty: the sweep finds the rest.
        """
        with suppress(OSError):
            if not _is_empty(number) and Pid.of(number) is None:
                self._members[number] = _seen({number}).get(number, set())

    @property
    def members(self) -> frozenset[Pid]:
        """Those seen so far; some may have ended."""
        return frozenset().union(*self._members.values())

    @property
    def numbers(self) -> frozenset[int]:
        """Those of the groups; some may be empty."""
        return frozenset(self._members)

    def inhabited(self) -> frozenset[int]:
        """The numbers of those that are not empty; raises OSError at EMFILE and the like."""
        self._look()
        return self.numbers

    @property
    def are_empty(self) -> bool:
        """Whether all groups are empty; an empty group is forgotten."""
        try:
            self._look()
        except OSError:  # EMFILE does not prove that a process has exited
            return False
        return not self._members

    def send(self, number: int) -> None:
        """Signal all members."""
        with suppress(OSError):
            self._look()
            self._take_in(set(self._members))
        for members in self._members.values():
            for pid in members:
                with suppress(OSError):
                    pid.send(number)

    def _look(self) -> None:
        """Forget members that are gone, and groups without members."""
        thinned = set()
        for group, members in list(self._members.items()):
            staying = set() if _is_empty(group) else {pid for pid in members if _is_in(pid, group)}
            if not staying:
                del self._members[group]
            elif staying != members:
                self._members[group] = staying
                thinned.add(group)
        self._take_in(thinned)

    def _take_in(self, groups: set[int]) -> None:
        """Add processes that have joined since; raises OSError."""
        if not groups:
            return
        for group, joined in _seen(groups).items():
            members = self._members[group]
            # If the group was empty meanwhile, these could be foreign.
            if any(_is_in(pid, group) for pid in members):
                members |= joined


def leading_children(parent: int, root: Path = proc.PROC) -> Iterator[Pid]:
    """Its children that lead a session; raises OSError at EMFILE and the like.

    A number that the kernel has given to a stranger since it was listed has another parent.
    """
    for number in proc.children(parent, root):
        stat = proc.stat(number, root)
        if stat is not None and stat.session == number and stat.parent == parent:
            yield Pid(number, stat.start)


def _seen(groups: set[int]) -> dict[int, set[Pid]]:
    """Our descendants in these groups."""
    found: dict[int, set[Pid]] = {}
    for number in proc.descendants(os.getpid()):
        stat = proc.stat(number)
        if stat is not None and stat.group in groups:
            found.setdefault(stat.group, set()).add(Pid(number, stat.start))
    return found


def _is_in(pid: Pid, group: int) -> bool:
    stat = proc.stat(pid.number)
    return stat is not None and stat.start == pid.start and stat.group == group


def _is_empty(group: int) -> bool:
    """Whether there is no such group, ours or foreign."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # all its members run as other users
        pass
    return False
