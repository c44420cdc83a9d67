"""Whole numbers in variables of the environment; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.values import MOST_PORTS
from ascend_supervisor.untrusted_text import shown

MOST_HOSTS = 100_000
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)


def whole(environ: Mapping[str, str], name: str) -> int | None:
    """The number that a variable holds; None where it holds none."""
    text = environ.get(name, "")
    return int(text) if _WHOLE.fullmatch(text) else None


def number(environ: Mapping[str, str], name: str, least: int, most: int, default: str = "") -> int:
    """The number that a variable holds, from ``least`` to ``most``; raises SettingsRefused."""
    text = environ.get(name) or default
    if _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    found = shown(text) if text else "nothing"
    raise SettingsRefused(f"{name}: expected a whole number from {least} to {most}, found {found}")


def port(environ: Mapping[str, str], name: str) -> int | None:
    """The port that a variable holds; None where it holds none."""
    found = whole(environ, name)
    return found if found is not None and 1 <= found <= MOST_PORTS else None


def node_rank_among(
    environ: Mapping[str, str], names: Sequence[str], pods: int, asked: int | None
) -> int:
    """This pod's number: ``asked`` (--node-rank), else that of the first variable that is set.

    A single pod is number 0. Raises SettingsRefused.
    """
    if asked is not None:
        if asked < pods:
            return asked
        raise SettingsRefused(
            f"--node-rank: expected a whole number from 0 to {pods - 1}, because the job has "
            f"{pods} pods, found {asked}"
        )
    for name in names:
        if environ.get(name):
            return number(environ, name, 0, pods - 1)
    if pods == 1:
        return 0
    raise SettingsRefused(
        f"{names[0]} is not set: expected the number of this pod among the {pods} of the job; "
        "give it with --node-rank"
    )
