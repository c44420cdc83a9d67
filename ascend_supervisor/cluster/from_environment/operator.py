"""Ascend Operator's variables: the NPUs of the job and of each pod, and where the ranks meet; pure.

Facts from the Operator's sources. All pods that have NPUs have equally many.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ascend_supervisor.cluster.from_environment.declared import (
    Declared,
    Framework,
    Meeting,
    Store,
    even_table,
    numbered_pods,
)
from ascend_supervisor.cluster.from_environment.numbers import (
    MOST_HOSTS,
    node_rank_among,
    number,
    port,
)
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.values import MOST_DEVICES


class Names(Struct, frozen=True):
    """The variables that one framework gets.

    ``job`` and ``pod`` hold the number of NPUs; ``host`` and ``port`` are where the ranks meet.
    """

    framework: Framework
    job: str
    pod: str
    node_rank: str
    host: str
    port: str


PYTORCH = Names(
    Framework.PYTORCH, "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"
)
ALL = (PYTORCH,)
UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""torchrun sets it for its workers, and the variables of PYTORCH, too."""


def names_in(environ: Mapping[str, str]) -> Names | None:
    """The names of the variables that this pod has; None if it has none of the Operator's."""
    pytorch = (PYTORCH.job, PYTORCH.pod, PYTORCH.node_rank)
    if all(map(environ.get, pytorch)) and not environ.get(UNDER_TORCHRUN):
        return PYTORCH
    return None


def declared(names: Names, environ: Mapping[str, str], node_rank: int | None) -> Declared:
    """The cluster; ``node_rank`` is what --node-rank says. Raises SettingsRefused."""
    devices = number(environ, names.pod, 1, MOST_DEVICES)
    pods = _pods(names, environ, devices)
    ours = node_rank_among(environ, (names.node_rank,), pods, node_rank)
    return Declared(
        table=even_table(numbered_pods(pods), devices),
        node_rank=ours,
        framework=names.framework,
        evidence=f"{names.job}={environ[names.job]}",
    )


def _pods(names: Names, environ: Mapping[str, str], devices: int) -> int:
    pods, rest = divmod(number(environ, names.job, 1, MOST_HOSTS * MOST_DEVICES), devices)
    if rest:
        raise SettingsRefused(
            f"{names.job}: expected a multiple of {names.pod}={devices}, because all pods have "
            f"equally many NPUs, found {environ[names.job]}"
        )
    return pods


def meeting(names: Names, environ: Mapping[str, str]) -> Meeting | None:
    """Where the ranks meet; None where the variables do not say it."""
    host = environ.get(names.host)
    return Store(host, port(environ, names.port)) if host else None
