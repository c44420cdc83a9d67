"""Which server of a job ends last (--exit-linger): the first one of several; pure.

If all pods of a job fail within seconds, Volcano does not retry it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment.choice import node_rank_told, pods_told
from ascend_supervisor.life import Start


def ends_last(start: Start | None, environ: Mapping[str, str]) -> bool:
    """Whether this is that server: by its last ``start``, or by variables if there was none."""
    is_one_of_several = any(pods > 1 for _, pods in pods_told(environ))
    if start is None:
        return is_one_of_several and node_rank_told(environ) == 0
    return start.node_rank == 0 and (is_one_of_several or not start.holds_all_ranks)
