"""What the options, the variables and the file job.toml of a small job are read as."""

from collections.abc import Mapping
from typing import Any

import pytest

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers import Launcher
from ascend_supervisor.program.premises import launcher_here, meeting_here
from ascend_supervisor.settings.precedence import Help, Settings, Version, read_settings

COMMAND = ("python", "train.py")


def answer(
    *options: str, env: dict[str, str] | None = None, toml: str | bytes | None = None
) -> Settings | Help | Version:
    """What the options before a command, these variables and a file job.toml say."""
    content = toml.encode() if isinstance(toml, str) else toml or b""
    config = () if toml is None else ("--config", "job.toml")
    return read_settings((*config, *options, "--", *COMMAND), env or {}, lambda _: content)


def settings(*options: str, **more: Any) -> Settings:
    read = answer(*options, **more)
    assert isinstance(read, Settings)
    return read


def faults(*options: str, **more: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsRefused) as refused:
        answer(*options, **more)
    return refused.value.faults


def only_fault(*options: str, **more: Any) -> str:
    (fault,) = faults(*options, **more)
    return fault


def of_command_line(*argv: str) -> Settings:
    read = read_settings(argv, {}, lambda _: b"")
    assert isinstance(read, Settings)
    return read


def launcher(read: Settings, environ: Mapping[str, str]) -> Launcher:
    """The one that a run with these settings has, before it knows where its cluster comes from."""
    return launcher_here(read, environ, meeting_here(read, environ))
