"""The stage of a generation, for probes that look at its processes."""

from tests.workers.test_generation import stage

__all__ = ["stage"]
