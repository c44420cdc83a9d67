"""Modules that no start needs: they are imported while the processes of a generation begin to run.

Not later: when a rank has failed, every millisecond counts, and a machine that has run out of
descriptors can import nothing. Their regular expressions need no descriptor; they follow a moment
later, one by one: a job that is over by then needs none, and the ranks start without them.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

import anyio

LATE = ("ascend_supervisor.workers.examination", "ascend_supervisor.stacks.look")
"""What is looked at after a failure, and before the end of ranks that hang."""
MOMENT_SECONDS = 1.0


def import_late() -> None:
    """Import them; if that fails, whoever needs one of them tries again."""
    for name in LATE:
        with suppress(ImportError, OSError):
            import_module(name)


async def compile_late() -> None:
    """Compile what ``import_late`` has imported, a moment later and without holding up the loop."""
    await anyio.sleep(MOMENT_SECONDS)
    with suppress(ImportError, OSError):
        from ascend_supervisor.evidence.patterns import compiled  # noqa: PLC0415

        for _ in compiled():
            await anyio.lowlevel.checkpoint()
