"""Modules that no start needs: they are imported while the processes of a generation begin to run.

Not later: when a rank has failed, every millisecond counts, and a machine that has run out of
descriptors can import nothing.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

LATE = ("ascend_supervisor.workers.examination", "ascend_supervisor.stacks.look")
"""What is looked at after a failure, and before the end of ranks that hang."""


def import_late() -> None:
    """Import them; if that fails, whoever needs one of them tries again."""
    for name in LATE:
        with suppress(ImportError, OSError):
            import_module(name)
