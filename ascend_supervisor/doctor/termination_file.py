"""The termination log, which tells kubelet why the container ended."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.directories import can_be_made
from ascend_supervisor.files.regular_file import kind_of
from ascend_supervisor.untrusted_text import plain

SUBJECT = "termination log"


def termination_file(server: ThisServer) -> Iterator[Result]:
    """Nothing where there is none; raises OSError."""
    named = server.termination_log
    path = Path(named) if named is not None else server.roots.dev / "termination-log"
    if not os.path.lexists(path):
        if named is not None and not can_be_made(path.parent):
            yield _cannot(f"that user {os.geteuid()} cannot make {plain(str(path))}")
        return
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        yield _cannot(f"that {plain(str(path))} is {kind_of(mode)}")
    elif not os.access(path, os.W_OK):
        yield _cannot(f"that user {os.geteuid()} cannot write {plain(str(path))}")
    else:
        yield fit(SUBJECT, f"{plain(str(path))} can be written")


def _cannot(found: str) -> Result:
    remedy = "make it writable, or name another file with --termination-log"
    return warning(SUBJECT, found, "a file that can be written, for the cause of a failure", remedy)
