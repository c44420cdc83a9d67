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

MODELS = {servers: Model(servers, limit=2) for servers in (3, 4, 5)}


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    servers=st.sampled_from((3, 4, 5)),
    faults=st.lists(st.sampled_from(FAULTS), max_size=3),
    newcomers=st.lists(st.sampled_from(("same", "other")), max_size=2),
    start=st.sampled_from(("cold", "running")),
    seed=st.integers(0, 2**32),
)
def test_three_to_five_servers_survive_any_walk(servers, faults, newcomers, start, seed):
    model = MODELS[servers]
    world = getattr(model, start)(tuple(faults), tuple(newcomers))
    walk(model, world, Random(seed), 30 * servers)  # noqa: S311
