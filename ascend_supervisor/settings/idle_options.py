"""Options that somebody has given, and that do nothing without another one; pure."""

from __future__ import annotations

from ascend_supervisor.settings.kinds import Option
from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.precedence import Settings


def idle_options(settings: Settings) -> str | None:
    """A sentence that names those of the command line and the environment; None without any.

    A file may serve many jobs, so what stands there and does nothing is not told.
    """
    told = [
        f"{_given_as(option, settings)} does nothing without "
        + " or ".join(f"--{name}" for name in option.needs)
        for option in OPTIONS
        if _is_idle(option, settings)
    ]
    return f"{'; '.join(told)}: add that option, or leave this one out" if told else None


def _is_idle(option: Option, settings: Settings) -> bool:
    if not option.needs or settings.sources.get(option.name, "file") == "file":
        return False
    values = (getattr(settings, name.replace("-", "_")) for name in option.needs)
    return not any(value and value != "none" for value in values)


def _given_as(option: Option, settings: Settings) -> str:
    is_variable = settings.sources[option.name] == "environment"
    return option.variable if is_variable else option.flag
