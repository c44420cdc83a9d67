"""Phrases that several events and messages share."""

from __future__ import annotations


def who(rank: int | None, program: str | None) -> str:
    return program or "the launcher" if rank is None else f"rank {rank}"


def restarts_words(left: int, used: int | None, limit: int | None) -> str:
    """How many restarts are ``left``, and how many of its ``limit`` the cluster has ``used``.

    Without a cluster that restarts the job (``used`` None), only the first. With one, only the
    second if no restarts are left: then --restarts does not apply, or was not given.
    """
    if used is None:
        return f"restarts left: {left}"
    own = f"restarts left: {left}; " if left else ""
    return f"{own}restarts by the cluster within an hour: {used} of {limit}"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
