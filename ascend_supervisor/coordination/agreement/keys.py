"""The keys of a job, relative to its prefix in etcd."""

from __future__ import annotations

import re

EPOCH = "epoch"
ABOUT = "about"
SERVER, READY, DONE, ALIVE = "server", "ready", "done", "alive"
"""The first words of the keys of a member."""

_NUMBERS = {EPOCH: 0, ABOUT: 0, SERVER: 1, READY: 2, DONE: 2, ALIVE: 1}
"""How many numbers follow each first word."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
"""As it is written here: no other key means the same."""


def prefix(job: str) -> str:
    """What stands before every key of the job; ``job`` is its name, not its id."""
    return f"/ascend-supervisor/{job}/"


def server(index: int) -> str:
    return f"{SERVER}/{index}"


def ready(generation: int, index: int) -> str:
    return f"{READY}/{generation}/{index}"


def done(generation: int, index: int) -> str:
    return f"{DONE}/{generation}/{index}"


def alive(index: int) -> str:
    return f"{ALIVE}/{index}"


def parts(key: str) -> tuple[str, tuple[int, ...]] | None:
    """A key's first word and its numbers; None for a key that is none of ours."""
    word, *numbers = key.split("/")
    if _NUMBERS.get(word) != len(numbers) or not all(map(_NUMBER.fullmatch, numbers)):
        return None
    return word, tuple(map(int, numbers))
