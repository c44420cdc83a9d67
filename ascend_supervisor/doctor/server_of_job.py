"""The ThisServer of a job, from the settings of its supervisor; for it and ascend-supervisorctl."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath

from ascend_supervisor.doctor.server import ThisServer
from ascend_supervisor.files.directories import can_be_made
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.job_files import CACHE, Place, mounted_log_dir, place_of
from ascend_supervisor.settings.precedence import Settings, read_settings
from ascend_supervisor.settings.sources import CONFIG_BYTES


def server_of_job(settings: Settings, environ: Mapping[str, str], place: Place) -> ThisServer:
    """``environ`` is that of the ranks; what only a plan tells is not known yet."""
    return ThisServer(
        environ=environ,
        log_dir=place.log_dir,
        work_dir=place.work_dir,
        state_file=place.state_file,
        termination_log=settings.termination_log,
        ranks=settings.standalone or None,
    )


def server_here(arguments: Sequence[str], environ: Mapping[str, str], here: Path) -> ThisServer:
    """That of a supervisor with this command line, environment and directory.

    Raises SettingsRefused as it would. What a supervisor answers without a job is one without
    options.
    """
    read = partial(read_regular_file, most=CONFIG_BYTES)
    settings = read_settings(arguments, environ, read)
    if not isinstance(settings, Settings):
        return server_here(("--", "any"), environ, here)
    mounted = mounted_log_dir(environ)
    usual = mounted is None and settings.work_dir is None
    place = place_of(
        environ,
        os.uname().nodename,
        mounted_log_exists=mounted is not None and Path(mounted).is_dir(),
        here=PurePath(here),
        cache=CACHE if usual and can_be_made(Path(CACHE)) else None,
        log_dir=settings.log_dir,
        work_dir=settings.work_dir,
        state_file=settings.state_file,
    )
    return server_of_job(settings, environ, place)
