"""Servers as the checks see them, and what they say of one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ascend_supervisor.doctor.check import Roots, ThisServer
from ascend_supervisor.events.server import Result


def server(root: Path, **more: Any) -> ThisServer:
    """A server whose files are all below ``root``, with what the test says of it."""
    roots = Roots(
        root / "dev", root / "proc", root / "cgroup", root / "Ascend", root / "ld.so.cache"
    )
    for place in (roots.dev, roots.proc, roots.cgroups, roots.ascend):
        place.mkdir(exist_ok=True)
    usual = {
        "environ": {},
        "log_dir": root / "log",
        "work_dir": root / "work",
        "state_file": root / "log" / "state.json",
        "roots": roots,
    }
    return ThisServer(**{**usual, **more})


def verdicts(rows: Iterable[Result]) -> dict[str, str]:
    return {row.subject: row.verdict for row in rows}


def only(rows: Iterable[Result]) -> Result:
    (row,) = rows
    return row
