"""How the user wants the cluster to be followed; values."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.outcome import Patience


class Rules(Struct, frozen=True):
    """What the user has chosen; all in seconds.

    ``verdict`` is how long a failure here waits for the cluster, ``patience`` is the job's,
    ``reset_grace`` that of healthy ranks while an NPU waits for its reset. ``table_timeout`` None:
    for ever. ``joins_others``: the ranks need a process in another pod. ``reset_file`` is its path.
    """

    verdict: float
    patience: Patience
    reset_grace: float
    table_timeout: float | None
    joins_others: bool = False
    reset_file: str = ""
