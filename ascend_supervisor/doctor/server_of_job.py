"""The ThisServer of a job, from the settings of its supervisor; for it and ascend-supervisorctl."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ascend_supervisor.doctor.check import PartInJob, ThisServer
from ascend_supervisor.files.directories import can_be_made
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.job_files import CACHE, CANN_LOGS, Place, mounted_log_dir, place_of
from ascend_supervisor.settings.command_words import python_program
from ascend_supervisor.settings.peers_options import JOB_VARIABLES, password_in
from ascend_supervisor.settings.precedence import Settings, read_settings
from ascend_supervisor.settings.sources import CONFIG_BYTES

if TYPE_CHECKING:
    from ascend_supervisor.coordination.peers.meeting import PeersEtcd


def server_of_job(settings: Settings, environ: Mapping[str, str], place: Place) -> ThisServer:
    """``environ`` is that of the ranks; what only a plan tells is not known yet."""
    python = python_program(settings.command)
    return ThisServer(
        environ=environ,
        log_dir=place.log_dir,
        work_dir=place.work_dir,
        state_file=place.state_file,
        python=None if python is None else python.interpreter[0],
        plogs=_plogs(environ, place),
        termination_log=settings.termination_log,
        ranks=settings.standalone or None,
    )


def _plogs(environ: Mapping[str, str], place: Place) -> tuple[PurePath, ...]:
    """Where CANN logs, and where it does if it is told nothing."""
    named = environ.get(CANN_LOGS)
    usual = PurePath(environ.get("HOME", "/"), "ascend", "log")
    return (place.started_in / named if named else place.process_logs, usual)


def part_of(settings: Settings, environ: Mapping[str, str]) -> PartInJob:
    """What is known before there is a plan; ``environ`` is that of the supervisor."""
    if not isinstance(settings.peers, tuple):
        return PartInJob()
    return PartInJob(etcd=etcd_named(settings, environ), job=peers_job(settings, environ))


def etcd_named(settings: Settings, environ: Mapping[str, str]) -> PeersEtcd:
    """The etcd of ``--peers``, and who we are there."""
    from ascend_supervisor.coordination.peers.meeting import PeersEtcd  # noqa: PLC0415  (seldom)

    return PeersEtcd(
        endpoints=settings.peers if isinstance(settings.peers, tuple) else (),
        ttl=settings.peers_ttl,
        ca=settings.peers_ca,
        user=settings.peers_user,
        password=password_in(environ),
        password_file=settings.peers_password_file,
    )


def peers_job(settings: Settings, environ: Mapping[str, str]) -> str:
    """The name of the job in etcd."""
    return settings.peers_job or next(filter(None, map(environ.get, JOB_VARIABLES)), "")


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
    return replace(server_of_job(settings, environ, place), part=part_of(settings, environ))
