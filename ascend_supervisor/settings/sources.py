"""The sources of settings: command line, environment, TOML file; names are known, values not yet.

Each appends a sentence to ``faults`` for what it does not know, and goes on.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from ascend_supervisor.settings.kinds import PREFIX, Option, Source
from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.peers_options import PASSWORD
from ascend_supervisor.settings.process_recovery import PROCESS_RECOVERY, writes_last_checkpoint
from ascend_supervisor.settings.readers import read_duration
from ascend_supervisor.settings.user_variables import OWNER
from ascend_supervisor.untrusted_text import nearest, plain, unknown

CONFIG_BYTES = 64 * 1024
"""More than any configuration file of ours has."""
_MOST_STRANGE = 20

BY_FLAG = {option.flag: option for option in OPTIONS}
BY_VARIABLE = {option.variable: option for option in OPTIONS if "environment" in option.places}
BY_KEY = {option.key: option for option in OPTIONS if "file" in option.places}

# Kubernetes puts such variables into every pod for a Service named ascend-supervisor or the like.
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_[0-9]+_(TCP|UDP|SCTP)")
_LINK = re.compile(r"(tcp|udp|sctp)://[^\s/]+")

# Their ranks meet at a scheduler. Its pod may have no rank table, so no table decides the method.
_MINDSPORE_PODS = frozenset({"MS_WORKER", "MS_SCHED"})

# How long a dying-gasp checkpoint may take, and the seconds that the ranks sleep after it.
_TTP_LIMITS = {"TTP_OT": 0.0, "TTP_NORMAL_ACTION_TIME_LIMIT": 10.0}
_TTP_SWITCHES = (*PROCESS_RECOVERY, "MINDIO_FOR_MINDSPORE")
_TTP_DRAIN = 190.0


class Given(Struct, frozen=True):
    """A value that a source gave, and ``where``: the option, the variable, or the file and key.

    The value is unchecked until its option's kind has read it.
    """

    option: Option
    value: Any
    source: Source
    where: str


def split_command_line(
    argv: Sequence[str], faults: list[str]
) -> tuple[tuple[Given, ...], tuple[str, ...]]:
    """Our options, and the command: everything from the first word that is not an option.

    A misspelt option is treated as the one it resembles, so that it does not hide other faults.
    """
    rest = deque(argv)
    given = []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.popleft()
        if word == "--":
            break
        flag, equals, text = word.partition("=")
        option = _option("--help" if flag == "-h" else flag, faults)
        if option is None:
            continue
        value = text if equals else _value_after(option, rest)
        if value is None:
            faults.append(f"{option.flag} needs a value: write {option.flag}={option.kind.metavar}")
        else:
            given.append(Given(option, value, "command line", option.flag))
    return tuple(given), tuple(rest)


def _option(flag: str, faults: list[str]) -> Option | None:
    if flag in BY_FLAG:
        return BY_FLAG[flag]
    near = nearest(flag, BY_FLAG, "--")
    faults.append(unknown(flag, near, "--help lists the options"))
    return BY_FLAG.get(near)


def _value_after(option: Option, rest: deque[str]) -> str | bool | None:
    """The value taken from ``rest``; True if the option has none; None if it needs one."""
    following = rest[0] if rest else "--"
    if option.kind.needs_value:
        return None if following.startswith("--") else rest.popleft()
    if option.kind.takes_value and following.isascii() and following.isdigit():
        return rest.popleft()
    return True


def from_environment(environ: Mapping[str, str], faults: list[str]) -> Iterator[Given]:
    for name, text in environ.items():
        if not name.startswith(PREFIX) or not text or name in {OWNER, PASSWORD}:
            continue
        if name.endswith("_PORT") and _LINK.fullmatch(text):
            continue  # of a Service named ascend-supervisor-peers, say
        if name in BY_VARIABLE:
            for value in _values(BY_VARIABLE[name], text):
                yield Given(BY_VARIABLE[name], value, "environment", name)
        elif not _SERVICE_LINK.search(name):
            near = nearest(name, BY_VARIABLE, PREFIX)
            faults.append(unknown(name, near, "unset it, or see --help for the options"))


def _values(option: Option, text: str) -> list[str]:
    """The values in a variable: one on each line if the option repeats."""
    if not option.kind.repeats:
        return [text]
    return [line for line in text.split("\n") if line.strip()]


def from_platform(environ: Mapping[str, str]) -> Iterator[Given]:
    """Settings from variables of the platform and of MindIO; our own variables and options win."""
    method = environ.get("MA_RUN_METHOD")
    if method:
        yield Given(BY_KEY["method"], method, "environment", "MA_RUN_METHOD")
    elif environ.get("MS_ROLE") in _MINDSPORE_PODS and environ.get("MS_SCHED_HOST"):
        yield Given(BY_KEY["method"], "mindspore", "environment", "MS_ROLE")
    if shown := _dying_gasp(environ):
        yield Given(BY_KEY["drain"], _drain_of(shown), "environment", " and ".join(shown))


def _dying_gasp(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that announce MindIO's last checkpoint."""
    return {
        name: environ[name]
        for name in (*_TTP_LIMITS, *_TTP_SWITCHES)
        if writes_last_checkpoint(name, environ.get(name, ""))
    }


def _drain_of(shown: Mapping[str, str]) -> float:
    """Seconds that ranks may need for MindIO's last checkpoint, by its variables."""
    seconds = [_seconds(shown[name]) + more for name, more in _TTP_LIMITS.items() if name in shown]
    return max((known for known in seconds if known > 0), default=_TTP_DRAIN)


def _seconds(text: str) -> float:
    """The number in ``text``; minus infinity if it is not a number."""
    try:
        return read_duration(text)
    except ValueError:
        return float("-inf")


def from_file(
    config: Given, read_file: Callable[[str], bytes], faults: list[str]
) -> Iterator[Given]:
    name = plain(str(config.value))
    document = _document(config, read_file, faults)
    for key, value in document.items():
        if key in BY_KEY:
            for item in _in_file(BY_KEY[key], value):
                yield Given(BY_KEY[key], item, "file", f"{name}: {key}")
    strange = [key for key in document if key not in BY_KEY]
    for key in strange[:_MOST_STRANGE]:
        otherwise = "a key is an option of --help with _ for -, other than config"
        faults.append(f"{name}: {unknown(key, nearest(key, BY_KEY), otherwise)}")
    if len(strange) > _MOST_STRANGE:
        faults.append(f"{name}: {len(strange) - _MOST_STRANGE} more keys are not known")


def _in_file(option: Option, value: object) -> list[object]:
    """The values of a key: those of its list if the option repeats; an empty list is one value."""
    if option.kind.repeats and isinstance(value, list):
        return value or [value]
    return [value]


def _document(
    config: Given, read_file: Callable[[str], bytes], faults: list[str]
) -> dict[str, object]:
    """The content of the file; empty, with a fault, if it cannot be read."""
    path = str(config.value)
    content = b""
    try:
        content = read_file(path)
        return _toml(content)
    except OSError as error:
        reason = error.strerror or str(error)
        faults.append(f"{config.where}: {plain(path)} cannot be read: {plain(reason)}")
    except (ValueError, RecursionError) as error:
        faults.append(f"{plain(path)} is not TOML: {plain(_syntax_error(error, content))}")
    return {}


def _toml(content: bytes) -> dict[str, object]:
    library = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, object] = library.loads(content.decode("utf-8-sig"))
    return document


def _syntax_error(error: Exception, content: bytes) -> str:
    """What is wrong with ``content``, and at which line."""
    if isinstance(error, UnicodeDecodeError):
        line = content.count(b"\n", 0, error.start) + 1
        return f"not UTF-8 (at line {line})"
    line = content.count(b"\n") + 1
    return str(error).replace("at end of document", f"at line {line}, the end")
