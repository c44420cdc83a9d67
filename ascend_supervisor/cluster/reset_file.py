"""What MindCluster writes about faulty NPUs: the reset file (reset.json); pure.

The device plugin, ClusterD and Volcano write it; keys were added from release to release: unknown
ones are ignored, missing ones have their zero.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.files.untrusted_json import (
    Cursor,
    Misfit,
    NotJson,
    parse_json,
    refuse_doubles,
)

MAX_BYTES = 4 * 1024 * 1024
"""A larger file is no reset file: it comes from a ConfigMap, which holds 1 MiB."""

_KEYS = frozenset({"RankList", "RetryTime", "FaultFlushing", "GracefulExit"})
_DIGITS = re.compile(r"[0-9]{1,18}")
_MOST = 10**18
_STATUS = re.compile(r"[a-z_-]{1,40}")
_CODE = re.compile(r"(?:0[Xx])?([0-9A-Fa-f]{1,16})")
_MOST_CODES = 4
_WORDS = {"true": True, "false": False}
_BITS: dict[int | None, bool] = {1: True, 0: False}

HOT_RESET, POD_RESCHEDULE = "hotReset", "podReschedule"
_RESETS = frozenset({"unrecovered", "recovered", "failed"})


class ListedRank(Struct, frozen=True):
    """A rank of the job on a faulty NPU.

    ``status`` is fault, unrecovered, recovered or failed, in lower case; others are of later
    releases. ``codes`` are the first of the driver's fault codes, hexadecimal (8C03A000).
    """

    rank: int
    status: str
    codes: tuple[str, ...] = ()


class ResetFile(Struct, frozen=True):
    """The news of one reset file; it is the job's: its ranks are those of all servers.

    ``retry_time`` rises when pods have been replaced, and up to MindCluster 26.0 also when NPUs are
    reset: then they are listed. ``is_flushing``: faults are being collected, nothing is to be
    started. ``graceful_exit``: save and end. ``restart_type`` stands in a file of its own beside
    this one, which may be missing or older: HOT_RESET, POD_RESCHEDULE, or empty.
    """

    ranks: tuple[ListedRank, ...] = ()
    retry_time: int = 0
    is_flushing: bool = False
    graceful_exit: bool = False
    restart_type: str = ""

    @property
    def lists_resets(self) -> bool:
        """Whether NPUs are listed that are or were reset; where pods are replaced none is."""
        return any(listed.status in _RESETS for listed in self.ranks)

    @property
    def is_of_reset(self) -> bool:
        """Whether ``retry_time`` has risen because NPUs are reset, as far as is known.

        The list is emptied some time after the reset; then only ``restart_type`` still tells it.
        """
        return self.lists_resets or self.restart_type == HOT_RESET

    @property
    def is_waiting(self) -> bool:
        """Whether an NPU must be reset."""
        return any(listed.status == "unrecovered" for listed in self.ranks)

    @property
    def without_waiting(self) -> ResetFile:
        """The same without NPUs that must be reset."""
        return replace(self, ranks=tuple(one for one in self.ranks if one.status != "unrecovered"))


def parse_reset_file(data: bytes) -> ResetFile | None:
    """None if it holds no news: it is empty, torn, or just being initialized. Never raises.

    None, too, if a value that counts for the whole job cannot be understood: its zero could be
    taken for a change. Entries of ``RankList`` that cannot be understood are skipped.
    """
    if len(data) > MAX_BYTES:
        return None
    try:
        top = parse_json(data)
        refuse_doubles(data, top)
        return _news(top)
    except (NotJson, Misfit):
        return None


def parse_restart_type(data: bytes) -> str:
    """What the file ``restartType`` says; empty if it says nothing that is known."""
    word = data.strip()
    return next((known for known in (HOT_RESET, POD_RESCHEDULE) if word == known.encode()), "")


def _news(top: Cursor) -> ResetFile | None:
    """None for an object without any of the keys, such as the initial ``{"status": ...}``."""
    if not isinstance(top.value, dict) or _KEYS.isdisjoint(top.value):
        return None
    return ResetFile(
        ranks=_listed_ranks(top),
        retry_time=_retry_time(top),
        is_flushing=_is_flushing(top),
        graceful_exit=_asks_for_exit(top),
    )


def _listed_ranks(top: Cursor) -> tuple[ListedRank, ...]:
    if top.get("RankList") is None:  # an empty list of Go
        return ()
    read = map(_listed_rank, top.elements("RankList"))
    return tuple(listed for listed in read if listed is not None)


def _listed_rank(entry: Cursor) -> ListedRank | None:
    if not isinstance(entry.value, dict):
        return None
    rank = _whole(entry.get("RankId"))
    status = _status(entry.get("Status"))
    if rank is None or status is None:
        return None
    return ListedRank(rank, status, _codes(entry.value))


def _status(value: Any) -> str | None:
    status = value.strip().lower() if isinstance(value, str) else ""
    return status if _STATUS.fullmatch(status) else None


def _codes(entry: dict[str, Any]) -> tuple[str, ...]:
    """Of ``ErrorCodeHex``, hexadecimal numbers and commas; older releases have a list of numbers.

    Where a release has both, the list is empty.
    """
    text, numbers = entry.get("ErrorCodeHex"), entry.get("ErrorCode")
    if isinstance(text, str) and text:
        words = text.split(",", _MOST_CODES)[:_MOST_CODES]
    else:
        listed = numbers[:_MOST_CODES] if isinstance(numbers, list) else ()
        words = [f"{number:X}" for number in listed if type(number) is int]
    found = (_CODE.fullmatch(word.strip()) for word in words)
    return tuple(code[1].upper() for code in found if code)


def _retry_time(top: Cursor) -> int:
    """0 in a release without it; raises Misfit for what is no count."""
    if "RetryTime" not in top.value:
        return 0
    count = _whole(top.get("RetryTime"))
    if count is None:
        raise top.child("RetryTime").misfit("an integer, at least 0")
    return count


def _is_flushing(top: Cursor) -> bool:
    flushing = _truth(top.get("FaultFlushing"))
    if flushing is None:
        raise top.child("FaultFlushing").misfit("true or false")
    return flushing


def _asks_for_exit(top: Cursor) -> bool:
    """Only 1 asks for it; other integers have no meaning yet."""
    value = top.get("GracefulExit")
    asks = False if type(value) is int and value != 1 else _truth(value)
    if asks is None:
        raise top.child("GracefulExit").misfit("an integer")
    return asks


def _whole(value: Any) -> int | None:
    """An integer from 0 on; 3.0 and "3" are 3. None for anything else."""
    if type(value) is str and _DIGITS.fullmatch(value):
        return int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _MOST else None  # a bool is another type


def _truth(value: Any) -> bool | None:
    """A bool; null is false, as in Go; 0, 1 and the words true and false will do."""
    if value is None or type(value) is bool:
        return bool(value)
    if type(value) is str and (word := value.strip().lower()) in _WORDS:
        return _WORDS[word]
    return _BITS.get(_whole(value))
