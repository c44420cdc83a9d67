"""The first event: what runs here, and how the start before it ended."""

from __future__ import annotations

from ascend_supervisor import __version__
from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.earlier_start import earlier_end
from ascend_supervisor.events.supervisor import SupervisorStarted
from ascend_supervisor.job_files import Place
from ascend_supervisor.processes.secrets import masked_words
from ascend_supervisor.settings.precedence import Settings


def first_event(settings: Settings, cluster: Cluster, place: Place) -> SupervisorStarted:
    """Looks for the state file of an earlier start, for a bounded time."""
    earlier = earlier_end(place)
    return SupervisorStarted(
        version=__version__,
        command=masked_words(settings.command),
        method=settings.method,
        restarts=settings.restarts,
        settings=settings.non_defaults,
        cluster=cluster.source,
        cluster_hint=cluster.hint,
        schedule_count=place.start.schedule,
        start_count=place.start.process,
        previous_end=earlier.sentence if earlier else None,
        previous_root_cause=earlier.root_cause if earlier else None,
    )
