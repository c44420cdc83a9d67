"""The stage of a generation, for all who look at its processes."""

from tests.workers.test_generation import stage

__all__ = ["stage"]
