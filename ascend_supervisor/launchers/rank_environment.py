"""The variables by which ranks know their places: of HCCL, MindSpore, PyTorch, TensorFlow; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ascend_supervisor.cluster.declared import UNDER_TORCHRUN, Chief, TorchStore
from ascend_supervisor.cluster.platforms import master_address
from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.settings.readers import Method

WITHOUT_ADDRESS = (
    "ranks start without it, because VC_WORKER_HOSTS is not set and the rank table holds no "
    "address of the first server; if they use torch.distributed, set MASTER_ADDR to that address, "
    "the same on all servers"
)


def needed_address(
    method: str, table: RankTable, environ: Mapping[str, str], store: TorchStore | None = None
) -> str:
    """The rendezvous address of rank 0; raises SettingsRefused if it is unknown."""
    address = master_address(table, environ, store)
    if address is None:
        raise SettingsRefused(
            f"{method} needs the address of the first server, and neither the environment nor the "
            "rank table gives one; set MASTER_ADDR to it, the same on all servers"
        )
    return address


def without_address(specs: Sequence[ProcessSpec]) -> bool:
    """Whether ranks are started without the rendezvous address of rank 0."""
    return any(spec.environ.get("MASTER_ADDR", "") is None for spec in specs)


MASTER_PORT = "29500"
"""torch.distributed's default; the platform's MASTER_PORT, the same on all servers, wins."""
CHIEF_PORT = "2222"
"""Ascend Operator's."""


OF_THE_NODE = (
    *("MS_ROLE", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_SERVER_NUM"),
    *("MS_WORKER_NUM", "MS_LOCAL_WORKER", "MS_NODE_RANK"),
    *("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_IP"),
    *("CM_WORKER_SIZE", "CM_LOCAL_WORKER", "CM_RANK"),
)
"""What Ascend Operator sets for a MindSpore or TensorFlow pod. A rank that finds MS_ROLE waits for
a scheduler, which is not started here; with a rank table it needs none. HCCL takes CM_* only where
RANK_ID is not set. All other MS_* are the user's.
"""


def rank_environ(
    boot: Boot, table: RankTable, here: Here, local_rank: int, rank: int
) -> dict[str, str | None]:
    """Of a rank that a process of its own runs; None: unset."""
    if boot.chief is not None and not table.document:
        return _tensorflow(boot, boot.chief, local_rank, rank)
    return {
        **{name: None for name in OF_THE_NODE if name in boot.environ},
        **platform_environ(table, here, local_rank, rank),
        **_torch(boot, table, here, local_rank, rank),
    }


def _tensorflow(boot: Boot, chief: Chief, local_rank: int, rank: int) -> dict[str, str | None]:
    """What HCCL reads beside the CM_* of the pod; it refuses the variables of a rank table."""
    port = chief.port if boot.port is None else boot.port
    return {
        **dict.fromkeys(("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE")),
        "CM_CHIEF_PORT": CHIEF_PORT if port is None else str(port),
        "ASCEND_DEVICE_ID": str(local_rank),
        "DEVICE_INDEX": str(rank),
    }


def _torch(
    boot: Boot, table: RankTable, here: Here, local_rank: int, rank: int
) -> dict[str, str | None]:
    """What torch.distributed's ``env://`` reads, and what torchrun sets for its workers."""
    address = master_address(table, boot.environ, boot.store)
    port = master_port(boot, here, address=address)
    return {
        **kept_store(boot, address, port),
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(table.world_size or len(table.entries)),
        "LOCAL_WORLD_SIZE": str(len(here.entry.devices) or 1),
        "GROUP_RANK": str(here.node_rank),
        "NODE_RANK": str(here.node_rank),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "TORCHELASTIC_MAX_RESTARTS": str(boot.restarts),
        "TORCHELASTIC_RUN_ID": here.place.job_id,
    }


def platform_environ(
    table: RankTable, here: Here, local_rank: int, rank: int
) -> dict[str, str | None]:
    """What HCCL and MindSpore read; device ids are local indices, whatever the table says."""
    return {
        "RANK_ID": str(rank),
        "RANK_SIZE": str(table.world_size),
        "DEVICE_ID": str(local_rank),
        "ASCEND_DEVICE_ID": str(local_rank),
        "RANK_TABLE_FILE": str(here.place.table_file)
        if table.document and table.world_size
        else None,
    }


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


def kept_store(boot: Boot, address: str | None, port: str) -> dict[str, str | None]:
    """Makes ranks clients of the agent of a torchrun above us, if it listens where they meet."""
    return {USES_STORE: "True"} if agent_store(boot.environ) == (address, port) else {}


def master_port(
    boot: Boot, here: Here, otherwise: str = MASTER_PORT, address: str | None = None
) -> str:
    """The port that was given, else the platform's if it is a number, else ``otherwise``.

    Nobody but the ranks here needs to know the last: the one that the job keeps comes before it.
    That of the agent of a torchrun above us is taken, unless ranks meet at its ``address``.
    """
    if boot.port is not None:
        return str(boot.port)
    if boot.store is not None and boot.store.port is not None:
        return str(boot.store.port)
    agent = agent_store(boot.environ)
    given = boot.environ.get("MASTER_PORT", "") if agent is None or agent[0] == address else ""
    return given if given.isascii() and given.isdecimal() else str(here.port or otherwise)


def rank_names(method: Method) -> Sequence[bytes]:
    """The variables that may hold a rank, the one that counts first.

    mpirun sets only its own and leaves those of the node; all other launchers set the first two.
    """
    usual = (b"RANK_ID", b"RANK")
    of_mpi = (b"OMPI_COMM_WORLD_RANK",)
    return of_mpi + usual if method == "mpirun" else usual + of_mpi
