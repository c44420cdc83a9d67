"""What operators tell the pods of a job by variables, and what its ranks are to find.

The operators are Ascend Operator and Kubeflow's two. ``cards`` is the number of NPUs in each pod
that has any, ``pods`` the number of such pods.
"""

from __future__ import annotations

Variables = dict[str, str]

SERVICE = "10.96.0.7"
"""The leader is reached there, and no pod has it as an address of its own."""
PORT = "2222"
SHAPES = ((1, 1), (4, 1), (4, 2), (2, 3))
"""Cards of a pod, pods: one card, one pod, several pods."""
EVERY_POD = tuple((cards, pods, node) for cards, pods in SHAPES for node in range(pods))
"""The pods of jobs of all shapes: cards, pods, node rank."""


def own_address(pod: int) -> str:
    return f"10.244.1.{10 + pod}"


def of_the_operator() -> Variables:
    """What Ascend Operator gives every pod, whatever the framework."""
    return {
        "MINDX_TASK_ID": "9c6e3d0a-uid",
        "MINDX_SERVER_IP": "10.96.0.99",
        "HostNetwork": "false",
    }


def pytorch(cards: int, pods: int, node: int) -> Variables:
    return {
        **of_the_operator(),
        "MASTER_ADDR": SERVICE,
        "MASTER_PORT": PORT,
        "WORLD_SIZE": str(cards * pods),
        "LOCAL_WORLD_SIZE": str(cards),
        "RANK": str(node),
        "LOCAL_RANK": ",".join(map(str, range(cards))),
    }


def for_torch(cards: int, pods: int, node: int, local_rank: int) -> dict[str, str | None]:
    """What torch finds in a rank of such a pod."""
    return {
        "RANK": str(node * cards + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(cards * pods),
        "LOCAL_WORLD_SIZE": str(cards),
        "GROUP_RANK": str(node),
        "NODE_RANK": str(node),
        "MASTER_ADDR": SERVICE,
        "MASTER_PORT": PORT,
    }


def for_hccl(cards: int, pods: int, node: int, local_rank: int) -> dict[str, str | None]:
    """What CANN finds there; without a table HCCL meets its peers through torch's store."""
    return {
        "RANK_ID": str(node * cards + local_rank),
        "RANK_SIZE": str(cards * pods),
        "DEVICE_ID": str(local_rank),
        "ASCEND_DEVICE_ID": str(local_rank),
        "RANK_TABLE_FILE": None,
    }


def mindspore_worker(cards: int, pods: int, node: int) -> Variables:
    """A Worker; where the Scheduler has NPUs its node rank is one more than its index."""
    return _mindspore(cards, pods, node, "MS_WORKER", SERVICE, npus=True)


def mindspore_scheduler(cards: int, pods: int, *, npus: bool) -> Variables:
    """The Scheduler; with ``npus`` it is one of the ``pods``."""
    return _mindspore(cards, pods, 0, "MS_SCHED", own_address(0), npus=npus)


def _mindspore(
    cards: int, pods: int, node: int, role: str, scheduler: str, *, npus: bool
) -> Variables:
    """``npus``: whether the pod itself has any; a Worker always has."""
    return {
        **of_the_operator(),
        "MS_SCHED_HOST": scheduler,
        "MS_SCHED_PORT": PORT,
        "MS_SERVER_NUM": "0",
        "MS_ROLE": role,
        "MS_WORKER_NUM": str(cards * pods),
        "MS_LOCAL_WORKER": str(cards),
        "MS_NODE_RANK": str(node),
        "NPU_POD": "true" if npus else "false",
    }


def of_an_older_operator(pod: Variables) -> Variables:
    """The same pod before the Operator told its node rank, and whether it has NPUs."""
    newer = ("MS_NODE_RANK", "NPU_POD")
    return {name: value for name, value in pod.items() if name not in newer}


def tensorflow(cards: int, pods: int, node: int) -> Variables:
    return {
        **of_the_operator(),
        "CM_CHIEF_IP": SERVICE if node else own_address(0),
        "CM_CHIEF_PORT": PORT,
        "CM_CHIEF_DEVICE": "0",
        "CM_WORKER_SIZE": str(cards * pods),
        "CM_LOCAL_WORKER": str(cards),
        "CM_WORKER_IP": own_address(node),
        "CM_RANK": str(node),
    }


KUBEFLOW_PORT = "23456"
MASTER = "job-master-0"
"""The name of the service of Kubeflow's Master."""


def kubeflow_v1(processes: int | str | None, pods: int, node: int) -> Variables:
    """``processes`` is nprocPerNode as the job says it; None if it says nothing."""
    each = processes if isinstance(processes, int) else 1
    nproc = {} if processes is None else {"PET_NPROC_PER_NODE": str(processes)}
    return {
        "MASTER_ADDR": MASTER,
        "MASTER_PORT": KUBEFLOW_PORT,
        "WORLD_SIZE": str(each * pods),
        "RANK": str(node),
        "PET_NNODES": str(pods),
        "PET_NODE_RANK": str(node),
        "PET_MASTER_ADDR": MASTER,
        "PET_MASTER_PORT": KUBEFLOW_PORT,
        **nproc,
    }


def trainer_v2(processes: int | str, pods: int, node: int) -> Variables:
    return {
        "PET_NNODES": str(pods),
        "PET_NPROC_PER_NODE": str(processes),
        "PET_NODE_RANK": str(node),
        "PET_MASTER_ADDR": MASTER,
        "PET_MASTER_PORT": KUBEFLOW_PORT,
    }
