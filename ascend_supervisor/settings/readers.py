"""Read the values of settings, from a text or from what a TOML document holds; touches nothing.

Each raises ValueError with what it expects.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from math import isfinite
from pathlib import Path
from signal import Signals
from typing import Literal, get_args

from msgspec import Struct

from ascend_supervisor.causes.cause import Layer
from ascend_supervisor.phrases import read_cpu_list, run_of, run_text

HangDump = Literal["auto", "pyspy", "none"] | Signals
"""``auto`` is py-spy if it is installed, else /proc; a signal goes to every rank."""

_WORDS: tuple[Literal["auto", "pyspy", "none"], ...] = ("auto", "pyspy", "none")
_SIGNALS = (Signals.SIGUSR1, Signals.SIGUSR2, Signals.SIGQUIT, Signals.SIGHUP)
"""Signals that a program may register for a dump; none that ends it by convention."""


def read_hang_dump(found: object) -> HangDump:
    """Raises ValueError with what it expects."""
    text = found.strip() if isinstance(found, str) else ""
    for word in _WORDS:
        if text.lower() == word:
            return word
    for number in _SIGNALS:
        if text.upper() in {number.name, number.name.removeprefix("SIG")}:
            return number
    names = ", ".join(number.name for number in _SIGNALS)
    raise ValueError(f"{', '.join(_WORDS)}, or one of the signals {names}")


MOST = 10**18 - 1
"""The largest whole number taken: eighteen digits, so that it fits every JSON reader's 64 bits."""

ConsoleFormat = Literal["auto", "json", "text", "raw", "none"]
Method = Literal[
    "ranktable", "torchrun", "msrun", "mindspore", "mpirun", "torch-ddp", "tensorflow", "once"
]
Color = Literal["auto", "always", "never"]
ProgressSource = Literal["auto", "off"]
StallNotice = Literal["on", "off"]
LogLevel = Literal["debug", "info", "warning", "error"]
ServerCheckChoice = Literal["auto", "off"]
CpuBinding = Literal["none", "auto"] | tuple[frozenset[int], ...]
"""The CPUs of each local rank."""
RankDir = Literal["device", "rank", "same"]

MOST_DEVICES = 16
"""Of one server: an Atlas A3 has them."""

MOST_PORTS = 65535


class ListenAddress(Struct, frozen=True):
    """An IP address of this machine and a port; all its addresses if ``host`` is empty."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class RankSet(Struct, frozen=True):
    """Some of the ranks, as ranges; ``str()`` gives back a list that reads as the same set."""

    ranges: tuple[range, ...]

    def __contains__(self, rank: object) -> bool:
        return any(rank in span for span in self.ranges)

    def __str__(self) -> str:
        if self == ALL_RANKS:
            return "all"
        return ",".join(map(run_text, self.ranges)) or "none"


ALL_RANKS = RankSet((range(MOST + 1),))
NO_RANKS = RankSet(())


_WHOLE = re.compile(r"[0-9]{1,18}")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) ?(ms|s|min|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, None: 1.0}
_SIZE = re.compile(r"([0-9]{1,18}) ?(?:([KMGT])(?:iB)?)?", re.IGNORECASE)
_HIGHEST_STATUS = 255
_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0"})


def read_duration(found: object, *, zero: bool = True) -> float:
    """Seconds, from a number or from a number with its unit."""
    seconds = _seconds(found)
    if seconds is None or not isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        more = "" if zero else ", more than 0"
        raise ValueError(f"seconds, or a number with its unit such as 250ms, 90s, 5m, 1h{more}")
    return seconds


def read_hang_timeout(found: object) -> float | Literal["auto"]:
    """Seconds; ``auto`` is learnt from the steps of the training."""
    if found == "auto":
        return "auto"
    try:
        return read_duration(found, zero=False)
    except ValueError as error:
        raise ValueError(f"auto, or {error}") from None


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


def is_denied(found: object) -> bool:
    """Whether it says that something was not given, where 0 would be a number."""
    return _word(found) in _FALSE - {"0"}


def read_text(found: object) -> str:
    if isinstance(found, str) and found.isprintable() and found.strip():
        return found.strip()
    raise ValueError("a text that is not empty")


def read_path(found: object) -> Path:
    if isinstance(found, str) and found and "\0" not in found:
        return Path(found)
    raise ValueError("a path that is not empty")


def read_path_or_none(found: object) -> Path | Literal["none"]:
    return "none" if _word(found) == "none" else read_path(found)


def read_metrics_path(found: object) -> Path:
    """Of a file that node_exporter reads."""
    if isinstance(found, str) and found.endswith(".prom"):
        return read_path(found)
    raise ValueError("a path that ends in .prom, because node_exporter reads no other files")


def read_listen_address(found: object) -> ListenAddress:
    """No name: it would have to be looked up, and may mean several addresses."""
    text = found.strip() if isinstance(found, str) else ""
    host, colon, port = text.rpartition(":")
    try:
        if host.startswith("[") and host.endswith("]"):
            host = str(IPv6Address(host[1:-1]))
        elif host:
            IPv4Address(host)
        return ListenAddress(host, read_port(colon and port))
    except ValueError:
        raise ValueError(
            "an IP address and a port, such as 127.0.0.1:9400 or [::1]:9400; :9400 is all addresses"
        ) from None


def read_paths(found: object) -> tuple[Path, ...]:
    """A path, or several in a list."""
    return tuple(map(read_path, found if isinstance(found, list) else [found]))


def read_modules(found: object) -> tuple[str, ...]:
    """Names of Python modules, such as ``transformers.models.gpt2``; one, or several in a list."""
    names = tuple(found if isinstance(found, list) else [found])
    for name in names:
        if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
            raise ValueError("the name of a Python module")
    return names


def read_progress_patterns(found: object) -> tuple[str, ...]:
    """One, or several in a list."""
    from ascend_supervisor.progress.pattern_format import (  # noqa: PLC0415  (seldom)
        format_of_pattern,
    )

    patterns = tuple(found if isinstance(found, list) else [found])
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern.isprintable():
            raise ValueError("a regular expression on one line")
        format_of_pattern(pattern)
    return patterns


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
        raise ValueError(
            f"1 to {MOST_DEVICES} devices, or no number for those present (in a variable or a "
            "file: true)"
        )
    return number


def read_codes(found: object) -> frozenset[int]:
    """Exit statuses, from a list or from a text with commas; an empty one holds none."""
    codes = [_whole(item) for item in _items(found)]
    if any(code is None or code > _HIGHEST_STATUS for code in codes):
        raise ValueError("exit statuses from 0 to 255 with commas between, such as 125,126")
    return frozenset(code for code in codes if code is not None)


def read_causes(found: object) -> frozenset[str]:
    """Layers and ids of the table of causes, from a list or from a text with commas."""
    words = [item.strip().lower() if isinstance(item, str) else None for item in _items(found)]
    if not words:
        return frozenset()
    from ascend_supervisor.causes.table import CAUSES  # noqa: PLC0415  (large, and seldom needed)

    layers = get_args(Layer)
    known = {name.lower(): name for name in (*layers, *CAUSES)}
    if not known.keys() >= {*words}:
        expected = f"layers ({', '.join(layers)}) or ids of docs/causes.md, with commas between"
        raise ValueError(f"{expected}, such as user,disk-full")
    return frozenset(known[word] for word in words if word is not None)


def read_failure_code(found: object) -> int:
    code = _whole(found)
    if code is None or not 1 <= code <= _HIGHEST_STATUS:
        raise ValueError(f"an exit code of a failure, from 1 to {_HIGHEST_STATUS}")
    return code


def read_cpu_binding(found: object) -> CpuBinding:
    word = _word(found)
    if word in {"none", "auto"}:
        return "auto" if word == "auto" else "none"
    items = found if isinstance(found, list) else str(found).split("/")
    with suppress(ValueError):
        lists = tuple(read_cpu_list(f"{item}") for item in items)
        if lists and all(lists) and sum(map(len, lists)) == len(frozenset().union(*lists)):
            return lists
    raise ValueError(
        "none, auto, or the CPUs of each local rank with / between, such as 0-11/12-23, none twice"
    )


def read_ranks(found: object) -> RankSet:
    word = _word(found)
    if word in {"all", "none"}:
        return ALL_RANKS if word == "all" else NO_RANKS
    spans = [_span(item) for item in _items(found)]
    if not spans or None in spans:
        raise ValueError("all, none, or ranks and ranges with commas between, such as 0,8-15")
    return RankSet(tuple(span for span in spans if span is not None))


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
    return run_of(item.strip() if isinstance(item, str) else str(_whole(item)))
