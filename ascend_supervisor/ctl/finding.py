"""Which state file is meant, and what is near where there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

from msgspec import Struct

from ascend_supervisor.ctl.state import (
    NAME_IT,
    PATTERN,
    VARIABLE,
    State,
    StateUnknown,
    read_state_file,
)
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.untrusted_text import plain

PLACING = (VARIABLE, "ASCEND_SUPERVISOR_LOG_DIR", "ASCEND_SUPERVISOR_CONFIG")
"""The variables of ours that decide where a supervisor keeps its state file."""
_MOST_LISTED = 20


class Named(Struct, frozen=True):
    """What the command line says: ``state_file`` counts, else the one in ``log_dir``."""

    state_file: str | None = None
    log_dir: str | None = None


class Usual(Struct, frozen=True):
    """Where a supervisor keeps its state file; if that ``is_certain``, no other file will do."""

    state_file: Path
    log_dir: Path
    is_certain: bool


def find_state(named: Named, environ: Mapping[str, str]) -> State:
    """The state in the file that is ``named``, else in that of a supervisor with this ``environ``.

    Raises StateUnknown, and SettingsRefused if a supervisor would refuse ``environ``.
    """
    path = _meant(named, environ)
    try:
        return read_state_file(path)
    except StateUnknown as unknown:
        if not isinstance(unknown.__cause__, FileNotFoundError):
            raise
        from ascend_supervisor.ctl.nearby import hints  # noqa: PLC0415  (only mistakes pay for it)

        raise StateUnknown(str(unknown), *hints(path, environ)) from unknown


def _meant(named: Named, environ: Mapping[str, str]) -> Path:
    file = named.state_file or (None if named.log_dir else environ.get(VARIABLE))
    if file:
        return Path(file)
    usual = _usual(environ, named.log_dir)
    if usual.is_certain or os.path.lexists(usual.state_file):
        return usual.state_file
    return _only_one(usual)


def _usual(environ: Mapping[str, str], log_dir: str | None) -> Usual:
    """What a supervisor does with this environment, and with ``log_dir`` on its command line."""
    # Slow, and a probe that names the file does not need it.
    from ascend_supervisor.job_files import mounted_log_dir, place_of  # noqa: PLC0415
    from ascend_supervisor.settings.precedence import Settings, read_settings  # noqa: PLC0415
    from ascend_supervisor.settings.sources import CONFIG_BYTES  # noqa: PLC0415

    placing = {name: environ[name] for name in PLACING if name in environ}
    settings = read_settings(("--", "any"), placing, partial(read_regular_file, most=CONFIG_BYTES))
    assert isinstance(settings, Settings)  # noqa: S101  (neither help nor version was asked for)
    mounted = mounted_log_dir(environ)
    state_file = None if log_dir else settings.state_file
    place = place_of(
        environ,
        os.uname().nodename,  # what socket.gethostname() gives, without the import
        mounted_log_exists=mounted is not None and os.path.isdir(mounted),  # noqa: PTH112
        here=_here(),
        log_dir=Path(log_dir) if log_dir else settings.log_dir,
        state_file=state_file,
    )
    return Usual(Path(place.state_file), Path(place.log_dir), state_file is not None)


def _here() -> PurePath:
    try:
        return Path.cwd()
    except OSError:  # it was removed; absolute paths can still be found
        return PurePath()


def _only_one(usual: Usual) -> Path:
    """The one state file in the log directory; if there is none, the missing usual one."""
    found: list[Path] = []
    with suppress(OSError):
        found = sorted(usual.log_dir.glob(PATTERN))
    if len(found) > 1:
        listed = [f"found: {plain(str(path))}" for path in found[:_MOST_LISTED]]
        if len(found) > _MOST_LISTED:
            listed.append(f"and {len(found) - _MOST_LISTED} more")
        raise StateUnknown(
            f"there is no state file {plain(str(usual.state_file))}, but {len(found)} others are "
            f"there; {NAME_IT}",
            *listed,
        )
    return found[0] if found else usual.state_file
