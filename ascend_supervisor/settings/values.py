"""The kinds of value a setting can have; each reads a text or a TOML value, and touches nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ascend_supervisor.untrusted_text import shown

MOST = 10**18 - 1
"""The largest whole number taken: eighteen digits, so that it fits every JSON reader's 64 bits."""

_WHOLE = re.compile(r"[0-9]{1,18}")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_SIZE = re.compile(r"([0-9]{1,18}) ?(?:([KMGT])(?:iB)?)?", re.IGNORECASE)
_RANKS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_HIGHEST_STATUS = 255
_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0"})


class Kind(Struct, frozen=True):
    """One kind of value: ``read`` takes what was found and raises ValueError with what it expects.

    What was found is a text, a value of a TOML document, or True for an option without a value.
    ``metavar`` is empty for a flag, and in brackets for an optional value. If it ``repeats``, the
    value is a tuple: what a source says several times is added up. ``shown`` quotes a value
    that is refused.
    """

    metavar: str
    read: Callable[[object], object]
    repeats: bool = False
    shown: Callable[[object], str] = shown

    @property
    def takes_value(self) -> bool:
        return self.metavar != ""

    @property
    def needs_value(self) -> bool:
        return self.takes_value and not self.metavar.startswith("[")


class RankSet(Struct, frozen=True):
    """Some of the ranks, as ranges; ``str()`` gives back a list that reads as the same set."""

    ranges: tuple[range, ...]

    def __contains__(self, rank: int) -> bool:
        return any(span.start <= rank < span.stop for span in self.ranges)

    def __str__(self) -> str:
        if self == ALL_RANKS:
            return "all"
        return ",".join(map(_span_text, self.ranges)) or "none"


ALL_RANKS = RankSet((range(MOST + 1),))
NO_RANKS = RankSet(())


def read_duration(found: object, *, zero: bool = True) -> float:
    """Seconds, from a number or from a number with its unit."""
    seconds = _seconds(found)
    if seconds is None or not isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        more = "" if zero else ", more than 0"
        raise ValueError(f"seconds, or a number with its unit such as 250ms, 90s, 5m, 1h{more}")
    return seconds


def read_size(found: object, *, least: int = 1) -> int:
    """Bytes, from a number or from a number with its unit; K, M, G and T are powers of 1024."""
    size = _bytes(found)
    if size is None or not least <= size <= MOST:
        raise ValueError(
            f"bytes, or a number with its unit such as 64KiB, 20MiB, 1GiB, at least {least} bytes"
        )
    return size


def read_whole(found: object, *, least: int = 0) -> int:
    number = _whole(found)
    if number is None or number < least:
        raise ValueError(f"a whole number, at least {least}")
    return number


def read_port(found: object) -> int:
    number = _whole(found)
    if number is None or not 1 <= number <= MOST_PORTS:
        raise ValueError(f"a port, from 1 to {MOST_PORTS}")
    return number


def read_flag(found: object) -> bool:
    word = _word(found)
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("true or false")


def read_text(found: object) -> str:
    if isinstance(found, str) and found.isprintable() and found.strip():
        return found.strip()
    raise ValueError("a text that is not empty")


def read_path(found: object) -> Path:
    if isinstance(found, str) and found and "\0" not in found:
        return Path(found)
    raise ValueError("a path that is not empty")


def read_paths(found: object) -> tuple[Path, ...]:
    """A path, or several in a list."""
    return tuple(map(read_path, found if isinstance(found, list) else [found]))


def read_choice(found: object, *, choices: tuple[str, ...]) -> str:
    word = _word(found)
    if word in choices:
        return word
    raise ValueError(f"one of {', '.join(choices)}")


def read_device_count(found: object) -> int | None:
    """A number of devices; 0 means all that exist, None that it was not given."""
    word = _word(found)
    if word in {"true", "false"}:
        return 0 if word == "true" else None
    number = _whole(found)
    if not number or number > MOST_DEVICES:
        raise ValueError(f"1 to {MOST_DEVICES} devices, or true for those present")
    return number


def read_codes(found: object) -> frozenset[int]:
    """Exit statuses, from a list or from a text with commas; an empty one holds none."""
    codes = [_whole(item) for item in _items(found)]
    if any(code is None or code > _HIGHEST_STATUS for code in codes):
        raise ValueError("exit statuses from 0 to 255 with commas between, such as 125,126")
    return frozenset(code for code in codes if code is not None)


def read_failure_code(found: object) -> int:
    code = _whole(found)
    if code is None or not 1 <= code <= _HIGHEST_STATUS:
        raise ValueError(f"an exit code of a failure, from 1 to {_HIGHEST_STATUS}")
    return code


def read_ranks(found: object) -> RankSet:
    word = _word(found)
    if word in {"all", "none"}:
        return ALL_RANKS if word == "all" else NO_RANKS
    spans = [_span(item) for item in _items(found)]
    if not spans or None in spans:
        raise ValueError("all, none, or ranks and ranges with commas between, such as 0,8-15")
    return RankSet(tuple(span for span in spans if span is not None))


def choice(metavar: str, choices: tuple[str, ...]) -> Kind:
    return Kind(metavar, partial(read_choice, choices=choices))


def whole(metavar: str, *, least: int = 0) -> Kind:
    return Kind(metavar, partial(read_whole, least=least))


Console = Literal["auto", "json", "text", "raw", "none"]
Method = Literal[
    "ranktable", "torchrun", "msrun", "mindspore", "mpirun", "torch-ddp", "tensorflow", "once"
]
LogLevel = Literal["debug", "info", "warning", "error"]
RankDir = Literal["device", "rank", "same"]

MOST_DEVICES = 16
"""Of one server: an Atlas A3 has them."""

MOST_PORTS = 65535

CODES = Kind("CODES", read_codes)
DEVICE_COUNT = Kind("[N]", read_device_count)
DURATION = Kind("S", read_duration)
FAILURE_CODE = Kind("CODE", read_failure_code)
FLAG = Kind("", read_flag)
PATH = Kind("PATH", read_path)
PERIOD = Kind("S", partial(read_duration, zero=False))
PORT = Kind("PORT", read_port)
RANKS = Kind("LIST", read_ranks)
SIZE = Kind("SIZE", partial(read_size, least=4096))


def _word(found: object) -> str:
    """A word in lower case, also for a truth value or a whole number; empty for all else."""
    if isinstance(found, str | bool) or _whole(found) is not None:
        return str(found).strip().lower()
    return ""


def _whole(found: object) -> int | None:
    if isinstance(found, str) and _WHOLE.fullmatch(found.strip()):
        return int(found)
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MOST:
        return found
    return None


def _seconds(found: object) -> float | None:
    if isinstance(found, str):
        match = _DURATION.fullmatch(found.strip())
        return float(match[1]) * _SECONDS[match[2]] if match else None
    if isinstance(found, float):
        return found
    number = _whole(found)
    return None if number is None else float(number)


def _bytes(found: object) -> int | None:
    match = _SIZE.fullmatch(found.strip()) if isinstance(found, str) else None
    if match is None:
        return _whole(found)
    return int(match[1]) << (10 * " KMGT".index((match[2] or " ").upper()))


def _items(found: object) -> list[object]:
    """The items of a list, or of a text with commas; anything else is one item."""
    if isinstance(found, str):
        return list(found.split(",")) if found.strip() else []
    return found if isinstance(found, list) else [found]


def _span(item: object) -> range | None:
    match = _RANKS.fullmatch(item.strip() if isinstance(item, str) else str(_whole(item)))
    if match is None:
        return None
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if first <= last else None


def _span_text(span: range) -> str:
    return f"{span.start}" if span.stop == span.start + 1 else f"{span.start}-{span.stop - 1}"
