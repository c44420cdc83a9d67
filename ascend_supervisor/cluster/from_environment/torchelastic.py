"""What a torchrun above us has set for this process, as for one of its workers; pure."""

from __future__ import annotations

from collections.abc import Mapping

UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""torchrun sets it for its workers, with their RANK and WORLD_SIZE."""
USES_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""Whether the agent itself listens at MASTER_ADDR, so that no rank may."""
OF_A_WORKER = ("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE", USES_STORE)
"""What torchrun sets for its workers, and we set for no rank."""


def agent_store(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """MASTER_ADDR and MASTER_PORT, if the agent of a torchrun above us listens there."""
    if not environ.get(UNDER_TORCHRUN) or environ.get(USES_STORE) != "True":
        return None
    found = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    return found if all(found) else None
