"""Phrases that several events and messages share."""

from __future__ import annotations


def who(rank: int | None, program: str | None) -> str:
    return program or "the launcher" if rank is None else f"rank {rank}"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
