"""Random walks of three to five servers, with up to three faults and two newcomers.

Each walk then goes on without further faults, and must come to an end.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.coordination.agreement.search import walk
from tests.coordination.agreement.world import FAULTS, Model

pytestmark = pytest.mark.thorough

MODELS = {
    (servers, reach): Model(servers, limit=2, reach=reach)
    for servers in (3, 4, 5)
    for reach in (None, 1)
}
"""By how many servers there are, and what they read (``Model``)."""


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    servers=st.sampled_from((3, 4, 5)),
    reach=st.sampled_from((None, 1)),
    faults=st.lists(st.sampled_from(FAULTS), max_size=3),
    newcomers=st.lists(st.sampled_from(("same", "other")), max_size=2),
    start=st.sampled_from(("cold", "running")),
    seed=st.integers(0, 2**32),
)
def test_three_to_five_servers_survive_any_walk(servers, reach, faults, newcomers, start, seed):
    model = MODELS[servers, reach]
    world = getattr(model, start)(tuple(faults), tuple(newcomers))
    walk(model, world, Random(seed), 30 * servers)  # noqa: S311
