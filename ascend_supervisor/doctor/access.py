"""Whether the job may write where it must.

A start refuses it by itself, so only who asks is told here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ascend_supervisor.doctor.check import ThisServer, fit, unfit
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.directories import can_be_made
from ascend_supervisor.untrusted_text import plain


def access(server: ThisServer) -> Iterator[Result]:
    """The work directory is not asked for: what is below it may be writable alone."""
    places = dict.fromkeys((server.log_dir, server.state_file.parent))
    for directory in places:
        name = plain(str(directory))
        if can_be_made(Path(directory)):
            yield fit("access", f"{name} can be written")
        else:
            yield unfit(
                "access",
                f"that user {os.geteuid()} can neither write to {name} nor make it",
                "a directory for logs and the state file",
                "make it writable, or name another one with --log-dir and --state-file",
            )
