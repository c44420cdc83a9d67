"""Whether another supervisor writes the same file of figures."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ascend_supervisor.files.regular_file import opened, read_up_to
from ascend_supervisor.metrics.figures import PREFIX
from ascend_supervisor.metrics.metrics_file import WRITE_SECONDS
from ascend_supervisor.untrusted_text import plain

RECENT_SECONDS = 4.0 * WRITE_SECONDS
"""Who has not written for so long does not write any more."""
MOST_BYTES = 1024 * 1024
_HAS_NOT_ENDED = re.compile(rf'^{PREFIX}phase{{(.*),phase="ended"}} 0$'.encode(), re.MULTILINE)


def complaint_of_sharing(path: Path, labels: str, now: float) -> str:
    """What to tell if one with other ``labels`` seems to write ``path``, else nothing. May block.

    To be called before ``path`` is written; ``now`` is in seconds since the epoch.
    """
    try:
        with opened(path) as descriptor:
            written = os.fstat(descriptor).st_mtime
            text = read_up_to(descriptor, MOST_BYTES)
    except OSError:
        return ""
    found = _HAS_NOT_ENDED.search(text)
    if found is None or now - written > RECENT_SECONDS or found[1] == labels.encode():
        return ""
    other = plain(found[1].decode("utf-8", "replace"))
    return (
        f"{path} was written less than a minute ago by another supervisor ({other}); if that one "
        "still runs, each of them needs a --metrics-file of its own"
    )
