"""Variables that the user sets for each rank; a value may hold names in braces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ascend_supervisor.untrusted_text import nearest, plain, shown

OWNER = "ASCEND_SUPERVISOR_OWNER"
"""The variable in every rank's environment that names its supervisor; not an option."""

OF_A_RANK = ("rank", "local_rank", "device_id")
NAMES = (*OF_A_RANK, "node_rank", "world_size", "rank_dir", "log_dir", "generation")
"""What may stand in braces."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]")


class RankVariable(Struct, frozen=True):
    """A variable, and its value as the user wrote it."""

    name: str
    template: str

    @property
    def names(self) -> frozenset[str]:
        """Those in braces."""
        return frozenset(found[1:-1] for found in _BRACES.findall(self.template)) & set(NAMES)

    def value(self, facts: Mapping[str, str]) -> str:
        """The value, where ``facts`` has all of ``names``."""

        def replaced(found: re.Match[str]) -> str:
            piece = found[0]
            return piece[0] if piece in {"{{", "}}"} else facts[piece[1:-1]]

        return _BRACES.sub(replaced, self.template)


def read_rank_variables(found: object) -> tuple[RankVariable, ...]:
    """A variable as ``NAME=VALUE``, or several in a list; raises ValueError."""
    items = found if isinstance(found, list) else [found]
    return tuple(map(_variable, items))


def _variable(item: object) -> RankVariable:
    name, equals, template = item.partition("=") if isinstance(item, str) else ("", "", "")
    if not equals or not _NAME.fullmatch(name) or "\0" in template:
        raise ValueError(
            "NAME=VALUE with the name of a variable, such as DEVICE_INDEX={rank}, and in "
            "ASCEND_SUPERVISOR_RANK_ENV one variable on each line"
        )
    if name == OWNER:
        raise ValueError(f"another name than {OWNER}, by which processes that are left are found")
    for piece in _BRACES.findall(template):
        if piece not in {"{{", "}}"} and piece[1:-1] not in NAMES:
            near = nearest(piece[1:-1], NAMES)  # any other piece may be a part of a secret
            meant = f" (did you mean {{{near}}} by {plain(piece)}?)" if near else ""
            known = f"only {', '.join(NAMES)} in braces{meant}"
            raise ValueError(f"{known}, and {{{{ or }}}} for a brace itself")
    return RankVariable(name, template)


def shown_variable(item: object) -> str:
    """A variable as a refusal shows it: without its value, which may be a secret.

    Text that is no name may be a line of a value.
    """
    if not isinstance(item, str):
        return "a list" if isinstance(item, list) else shown(item)
    name, equals, _ = item.partition("=")
    if equals and _NAME.fullmatch(name):
        return shown(f"{name}=...")
    return "a text that is not shown, because it may be a secret"


def without_rank(variables: Sequence[RankVariable], method: str) -> Iterator[str]:
    """Faults: variables that differ between ranks, where one process starts all of them.

    mpirun starts those of other servers, too. The process of torch-ddp or tensorflow has all
    devices of its server.
    """
    for variable in variables:
        for name in _SET_BY.get(method, {}):
            if name in variable.names:
                where = "" if name in OF_A_RANK else " of node 0, on all servers"
                yield (
                    f"{variable.name}: {{{name}}} cannot be used with --method {method}: it starts "
                    f"one process, and the ranks get its environment{where}; set the variable "
                    f"{_SET_BY[method][name]}, or start the ranks with another --method"
                )


_OF_A_SERVER = {
    "node_rank": "in the script, from OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_LOCAL_SIZE",
    "rank_dir": "in the script, from its working directory",
}
_SET_BY: Mapping[str, Mapping[str, str]] = {
    method: {
        "rank": f"in the script, from {rank}",
        "local_rank": f"in the script, from {local_rank}",
        "device_id": f"in the script, from {local_rank} and the rank table",
        **(_OF_A_SERVER if method == "mpirun" else {}),
    }
    for method, rank, local_rank in (
        ("torchrun", "RANK", "LOCAL_RANK"),
        ("msrun", "RANK_ID", "DEVICE_ID"),
        ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    )
} | {
    "once": dict.fromkeys(OF_A_RANK, "where the command starts its ranks"),
    "torch-ddp": {"device_id": "in the script, for each of its devices"},
    "tensorflow": {"device_id": "in the script, for each of its devices"},
}
