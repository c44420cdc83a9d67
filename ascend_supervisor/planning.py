"""Plans a generation: what its launcher starts here, with what the options add to every process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers import Here, Launcher
from ascend_supervisor.launchers.address import WITHOUT_ADDRESS, without_address
from ascend_supervisor.life import Equip, Plan, Start
from ascend_supervisor.notify.environment import notify_variables
from ascend_supervisor.processes.shell_file import Changes
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.users_environment import rank_variables, sourced_variables
from ascend_supervisor.workers.host_addresses import addresses_of
from ascend_supervisor.workers.preparation import prepare
from ascend_supervisor.workers.runtime import Runtime


class Planner(Protocol):
    """Plans a generation; ``addresses`` are those of the plan's host names, once they are known."""

    def __call__(self, start: Start, addresses: Mapping[str, str] | None = None) -> Plan: ...


def planner(
    settings: Settings,
    launcher: Launcher,
    place: Place,
    changes: Changes,
    notify: str | None,
    own_port: Callable[[], int | None],
) -> Planner:
    """A function that plans a generation, with what the options add to every process.

    ``notify`` is the address of the notify socket. ``own_port`` is called where all ranks are here.
    """

    def plan(start: Start, addresses: Mapping[str, str] | None = None) -> Plan:
        equips = (
            sourced_variables(changes),
            notify_variables(settings, notify, start),
            rank_variables(settings.rank_env, place, start),
        )
        port = own_port() if start.holds_all_ranks else None
        return plan_of(launcher, place, equips, start, addresses, port)

    return plan


def plan_of(
    launcher: Launcher,
    place: Place,
    equips: Sequence[Equip],
    start: Start,
    addresses: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Plan:
    """The processes to start here; each of ``equips`` changes every one of them.

    ``addresses`` are those of the plan's host names, once they are known. ``port`` is kept for
    rank 0.
    """
    here = Here(start.node_rank, start.entry, place, addresses or {}, port)
    specs = launcher.plan(start.found.table, here, start.generation)
    for equip in equips:
        specs = tuple(map(equip, specs))
    return Plan(start, specs)


async def prepared(place: Place, runtime: Runtime, again: Planner, plan: Plan) -> Plan:
    """Prepare the plan, made ``again`` with addresses if it holds host names."""
    hosts = {host for spec in plan.specs for host in spec.host_names}
    if hosts:
        addresses = await addresses_of(hosts, runtime.clock, runtime.report)
        plan = again(plan.start, addresses)
    if plan.start.generation == 0 and without_address(plan.specs):
        runtime.report(Diagnostic("MASTER_ADDR", WITHOUT_ADDRESS, None))
    return await prepare(plan, place.table_file, runtime)
