"""Why the operating system has refused a file, in words; of a permission, to whom."""

from __future__ import annotations

import os


def reason_of(error: OSError) -> str:
    """The kernel's words; ``Permission denied for user 1000`` says who we are on the file system.

    In a container nobody knows by heart as which user it runs.
    """
    reason = error.strerror or str(error)
    return f"{reason} for user {os.geteuid()}" if isinstance(error, PermissionError) else reason
