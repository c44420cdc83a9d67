"""Settings that each can be read, but not be had together, or not here; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ascend_supervisor.settings.peers_checks import peers_faults
from ascend_supervisor.settings.process_recovery import other_actors
from ascend_supervisor.settings.sources import Given
from ascend_supervisor.settings.user_variables import without_rank
from ascend_supervisor.settings.values import Method

SHARED_OUTPUT: frozenset[Method] = frozenset({"torchrun", "mpirun", "once"})
"""What the ranks write comes through one pipe, without saying whose it is."""


def contradictions(
    given: Mapping[str, Given], environ: Mapping[str, str], unreadable: Collection[str] = ()
) -> Iterator[str]:
    """A sentence for each; ``unreadable`` are names of options whose values are refused already."""
    yield from _between_options(given)
    yield from _not_to_follow(given, environ)
    if "peers" not in unreadable:
        yield from peers_faults(given, environ)


def _between_options(given: Mapping[str, Given]) -> Iterator[str]:
    alone, table = given.get("standalone"), given.get("rank-table")
    if alone and alone.value is not None and table:
        yield (
            f"{alone.where} and {table.where} exclude each other: one makes a rank table, "
            "the other reads one; leave one out"
        )
    method, variables = given.get("method"), given.get("rank-env")
    if method and variables:
        for fault in without_rank(variables.value, method.value):
            yield f"{variables.where}: {fault}"
    silence = given.get("rank-hang-timeout")
    if silence and method and method.value in SHARED_OUTPUT:
        yield (
            f"{silence.where}: with --method {method.value} all ranks write to one pipe, so that "
            "one silent rank cannot be noticed; use --hang-timeout or --watchdog"
        )
    delay, most = given.get("restart-delay"), given.get("restart-delay-max")
    if delay and most and delay.value > most.value:
        yield (
            f"{delay.where} is {delay.value:g} seconds, more than the {most.value:g} of "
            f"{most.where}; lower the first or raise the second"
        )


def _not_to_follow(given: Mapping[str, Given], environ: Mapping[str, str]) -> Iterator[str]:
    """Why --follow-cluster cannot be had here, if it was asked for."""
    follow, alone = given.get("follow-cluster"), given.get("standalone")
    if follow is None or not follow.value:
        return
    if alone and alone.value is not None:
        yield (
            f"{follow.where} and {alone.where} exclude each other: one follows the schedulers of "
            "a cluster, the other has none; leave one out"
        )
    if actors := other_actors(environ):
        yield (
            f"{follow.where}: process-level recovery is on ({'; '.join(map(str, actors))}): it "
            "keeps the ranks that are left, which this option would end; leave the option out, or "
            "turn the recovery off in all pods of the job"
        )
