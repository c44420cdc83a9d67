"""The variables by which a rank finds the notify socket; pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.life import Equip, Start
from ascend_supervisor.settings.readers import Method

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
        _check(method, address, start)
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


def _check(method: Method, address: str | None, start: Start) -> None:
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
