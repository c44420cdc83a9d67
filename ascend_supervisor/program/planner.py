"""Plans generations: what the launcher starts, with what the options add to every process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.job_files import CANN_LOGS, Place
from ascend_supervisor.launchers import Here, Launcher
from ascend_supervisor.life import Equip, Plan, Start
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.shell_file import Changes
from ascend_supervisor.program.cpu_binding import Binding
from ascend_supervisor.program.premises import Premises
from ascend_supervisor.settings.readers import Method
from ascend_supervisor.settings.user_variables import RankVariable


def sourced_variables(changes: Mapping[str, str | None]) -> Equip:
    """Applies ``changes`` as if they had been inherited: what the launcher sets wins."""

    def equip(spec: ProcessSpec) -> ProcessSpec:
        return replace(spec, environ={**changes, **spec.environ})

    return equip


def rank_variables(variables: Sequence[RankVariable], place: Place, start: Start) -> Equip:
    """Sets ``variables``; they win over what the launcher sets.

    A process that is not a rank gets only those that name no rank.
    """

    def equip(spec: ProcessSpec) -> ProcessSpec:
        facts = _facts(spec, place, start)
        if spec.rank is not None:
            _check_device(variables, facts)
        known = [variable for variable in variables if variable.names <= facts.keys()]
        said = {variable.name: variable.value(facts) for variable in known}
        made = [spec.cwd / said[CANN_LOGS]] if CANN_LOGS in said else []
        return replace(
            spec,
            environ={**spec.environ, **said},
            directories=(*spec.directories, *made),
        )

    return equip


def _check_device(variables: Sequence[RankVariable], facts: Mapping[str, str]) -> None:
    """Raise SettingsRefused where a rank has no device, and a variable is to hold its id."""
    for variable in variables:
        if "device_id" in variable.names - facts.keys():
            raise SettingsRefused(
                f"--rank-env: {variable.name}: {{device_id}} is the device_id in the rank table, "
                "and no device of this rank is known; leave it out"
            )


def _facts(spec: ProcessSpec, place: Place, start: Start) -> Mapping[str, str]:
    """What may stand in braces, by its name there."""
    table = start.found.table
    facts = {
        "node_rank": str(start.node_rank),
        "world_size": str(table.world_size or len(table.entries)),
        "rank_dir": str(spec.cwd),
        "log_dir": str(place.log_dir),
        "generation": str(start.generation),
    }
    if spec.rank is not None:
        facts |= {"rank": str(spec.rank), "local_rank": str(spec.local_rank)}
        for device in start.entry.devices:
            if device.rank == spec.rank:
                facts["device_id"] = str(device.device_id)
    return facts


class Planner(Protocol):
    """Plans a generation; ``addresses`` are those of the plan's host names, once they are known."""

    def __call__(self, start: Start, addresses: Mapping[str, str] | None = None) -> Plan: ...


def planner(
    given: Premises,
    launcher: Launcher,
    changes: Changes,
    notify: str | None,
    own_port: Callable[[], int | None],
) -> Planner:
    """A function that plans a generation, with what the options add to every process.

    ``notify`` is the address of the notify socket. ``own_port`` is called where all ranks are here.
    """
    method, place, limits = given.settings.method, given.place, given.limits
    must_notify = limits.must_notify
    binding = binding_of(given)

    def plan(start: Start, addresses: Mapping[str, str] | None = None) -> Plan:
        equips = (
            sourced_variables(changes),
            notify_variables(method, limits.watchdog, notify, start, must_notify=must_notify),
            rank_variables(given.settings.rank_env, place, start),
        )
        port = own_port() if start.holds_all_ranks else None
        made = plan_of(launcher, place, equips, start, addresses, port)
        return made if binding is None else binding.of(made)

    return plan


def binding_of(given: Premises) -> Binding | None:
    """What --bind-cpus wants; None for nothing."""
    settings, topology = given.settings, given.topology
    if topology is None:
        return None
    return Binding(settings.bind_cpus, settings.bind_memory, topology, given.environ)


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


SOCKET, MICROSECONDS, PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


def notify_variables(
    method: Method,
    watchdog: float | None,
    address: str | None,
    start: Start,
    *,
    must_notify: bool,
) -> Equip:
    """Sets the variables of sd_notify(3) and sd_watchdog_enabled(3), or removes inherited ones.

    ``watchdog`` is in seconds. A command that starts its ranks itself keeps its environment, unless
    an option needs their messages (``must_notify``). Raises SettingsRefused or Unavailable if
    --watchdog could not work.
    """
    if watchdog is not None:
        _check_watchdog(method, address, start)
    if method == "once" and not must_notify:
        return lambda spec: spec
    variables: Mapping[str, str | None] = {
        SOCKET: address,
        MICROSECONDS: _microseconds(watchdog),
        PID: None,  # sd_watchdog_enabled: every process may send WATCHDOG=1
    }

    def equip(spec: ProcessSpec) -> ProcessSpec:
        return replace(spec, environ={**spec.environ, **variables})

    return equip


def _microseconds(seconds: float | None) -> str | None:
    return None if seconds is None else str(max(1, round(seconds * 1e6)))


def _check_watchdog(method: Method, address: str | None, start: Start) -> None:
    if method == "mpirun" and not start.holds_all_ranks:
        raise SettingsRefused(
            "--watchdog cannot be used with --method mpirun on several servers: their ranks get "
            "no NOTIFY_SOCKET, because mpirun starts them over ssh, so each would count as hung; "
            "use --hang-timeout instead"
        )
    if address is None:
        raise Unavailable(
            "--watchdog needs a Unix socket, and this machine allows none (see the diagnostic "
            "event about the notify socket); use --hang-timeout instead"
        )
