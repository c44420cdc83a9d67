"""Whole numbers in variables of the environment; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ascend_supervisor.errors import SettingsRefused
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
