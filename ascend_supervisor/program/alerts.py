"""Who is told, from the settings; nothing of it is imported where nobody is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.files.regular_file import read_regular_file, reason_of
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.settings.alert_options import EventProgram, Webhook, read_webhooks
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.untrusted_text import plain
from ascend_supervisor.workers.command import check_command

if TYPE_CHECKING:
    import ssl

    from ascend_supervisor.alerts import Alerts
    from ascend_supervisor.alerts.webhooks import Targets
    from ascend_supervisor.control.operations import Operations
    from ascend_supervisor.job_files import Place
    from ascend_supervisor.output.json_lines import Origin
    from ascend_supervisor.progress.record import TrainingRecord
    from ascend_supervisor.workers.runtime import Runtime

FILE_BYTES = 64 * 1024
CA_BYTES = 1024 * 1024


def targets_of(settings: Settings) -> Targets | None:
    """Reads the files of URLs and of CA certificates; raises SettingsRefused."""
    file = settings.notify_url_file
    found = (*settings.notify_url, *(_in_file(file) if file else ()))
    if not found:
        return None
    from ascend_supervisor.alerts.webhooks import Targets  # noqa: PLC0415  (seldom)

    needs_trust = any(webhook.is_tls for webhook in found)
    trust = _trust(settings.notify_ca) if needs_trust else None
    return Targets(tuple(dict.fromkeys(found)), settings.notify_format, trust)


def file_without_url(settings: Settings, targets: Targets | None) -> str | None:
    """A sentence if --notify-url-file adds nothing to the ``targets``: a Secret may be empty."""
    file, found = settings.notify_url_file, targets.webhooks if targets else ()
    if file is None or set(found) - set(settings.notify_url):
        return None
    return f"{plain(str(file))} has no URL, or only such as are given otherwise; is it empty?"


def check_event_program(settings: Settings, cwd: PurePath, environ: Mapping[str, str]) -> None:
    """Raise CommandNotFound or CannotExecute if --on-event cannot be executed in ``cwd``."""
    if settings.on_event is not None:
        check_program("--on-event", settings.on_event, cwd, environ)


def check_program(
    option: str, program: EventProgram, cwd: PurePath, environ: Mapping[str, str]
) -> None:
    """Raise CommandNotFound or CannotExecute if it cannot be executed in ``cwd``."""
    word = program.words[:1]  # the others may be secrets
    check_command(ProcessSpec(word, cwd, cwd, title=option), environ)


def _in_file(file: Path) -> Iterator[Webhook]:
    for number, line in enumerate(_read("--notify-url-file", file, FILE_BYTES).splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                yield from read_webhooks(line)
            except ValueError as expected:
                where = f"--notify-url-file: {plain(str(file))}: line {number}"
                raise SettingsRefused(f"{where}: expected {expected}") from expected


def _trust(ca: Path | None) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415  (seldom)

    if ca is None:
        return ssl.create_default_context()
    text = _read("--notify-ca", ca, CA_BYTES)
    try:
        context = ssl.create_default_context(cadata=text or "nothing")  # not the system's
    except (ssl.SSLError, ValueError) as error:
        where = f"--notify-ca: {plain(str(ca))}"
        raise SettingsRefused(f"{where}: expected certificates in PEM, found none") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as for etcd: see etcd/connection
    return context


def _read(option: str, file: Path, most: int) -> str:
    try:
        return read_regular_file(file, most).decode("utf-8-sig")  # some editors write a BOM
    except OSError as error:
        reason = reason_of(error)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise SettingsRefused(f"{option}: {plain(str(file))} cannot be read: {reason}")


def alerts_of(
    settings: Settings,
    targets: Targets | None,
    place: Place,
    origin: Origin,
    runtime: Runtime,
    training: TrainingRecord,
    operations: Operations,
) -> tuple[Alerts, ...]:
    """What --on-event wants, and --notify-url, which has these ``targets``."""
    found: list[Alerts] = []
    kinds = settings.notify_on
    if settings.on_event is not None:
        from ascend_supervisor.alerts.event_command import EventCommand  # noqa: PLC0415  (seldom)
        from ascend_supervisor.reporters.event_log import lines_log  # noqa: PLC0415

        lines = partial(lines_log, origin=origin, level="info")
        found.append(EventCommand(settings.on_event, kinds, lines, place.started_in, runtime))
    if targets is not None:
        from ascend_supervisor.alerts.messages import Sender  # noqa: PLC0415  (seldom)
        from ascend_supervisor.alerts.webhooks import Webhooks  # noqa: PLC0415
        from ascend_supervisor.progress.words import account_sentence  # noqa: PLC0415

        def account() -> str:
            return account_sentence(training.account(runtime.clock.elapsed()))

        sender = Sender(place.job_id, place.pod, os.fspath(place.log_dir))
        found.append(Webhooks(targets, kinds, sender, operations.seen, account, runtime.report))
    return tuple(found)
