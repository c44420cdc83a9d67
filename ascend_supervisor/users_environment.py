"""What the user adds to the environment of every process; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.life import Equip, Start
from ascend_supervisor.settings.user_variables import RankVariable

CANN_LOGS = "ASCEND_PROCESS_LOG_PATH"


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
