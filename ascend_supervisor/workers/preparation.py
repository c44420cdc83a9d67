"""What a generation needs before its first process: addresses, a table, directories, logs."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path, PurePath
from typing import NoReturn

import anyio
from msgspec.structs import replace

from ascend_supervisor.errors import CannotWrite, CommandNotFound, SettingsRefused, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import (
    move_to,
    read_regular_file,
    reason_of,
    remove_remnants,
    write_atomically,
)
from ascend_supervisor.life import Plan
from ascend_supervisor.process_spec import HostName, ProcessSpec, Testimony, changed
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.untrusted_text import shown
from ascend_supervisor.workers.command import (
    check_command,
    check_exists,
    check_module,
    check_script,
    left_behind,
)
from ascend_supervisor.workers.runtime import Runtime

PRIVATE = 0o600
COPY_MODE = 0o644
PREPARED_SECONDS = 5.0
"""After this time, a disk that has not written the files of a generation is reported."""


async def prepare(plan: Plan, table_file: PurePath, runtime: Runtime) -> Plan:
    """Prepare the plan; returns it, with ``lacking`` set if the machine lacks something for now.

    Raises other refusals, before any event of the generation.
    """
    try:
        await first(
            partial(_make_ready, plan, table_file, runtime), partial(_tell_waiting, runtime)
        )
    except (Unavailable, NoThread) as lacking:
        return replace(plan, lacking=str(lacking))
    return plan


async def _make_ready(plan: Plan, table_file: PurePath, runtime: Runtime) -> None:
    await Call(partial(_write_and_check, plan, table_file, runtime.environ)).result()
    if not plan.start.generation and (
        words := await Call(partial(_first_doubt, plan, runtime.environ)).result()
    ):
        runtime.report(Diagnostic("COMMAND", words, None))
    await runtime.outputs.logs.open(plan.specs)


def _write_and_check(plan: Plan, table_file: PurePath, inherited: Mapping[str, str]) -> None:
    document = plan.start.found.table.file_for_ranks
    if document is not None:
        keep_copy(document, table_file)
    prepare_all(plan.specs, inherited)


def keep_copy(document: bytes, path: PurePath) -> None:
    """Write ``document`` to ``path``; the ranks see all of it or no file.

    Raises CannotWrite, or Unavailable where no file can be opened now.
    """
    try:
        if not _holds(Path(path), document):  # else a full disk would stop each generation
            remove_remnants(Path(path))
            write_atomically(Path(path), document, COPY_MODE)
    except OSError as error:
        if lacking := scarcity(error):
            raise Unavailable(
                f"cannot write the ranks' copy of the rank table: {lacking}"
            ) from error
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        remedy = "make room there" if is_full else "make its directory writable"
        raise CannotWrite(
            f"cannot write the ranks' copy of the rank table {path}: {reason_of(error)}; "
            f"{remedy}, or choose another directory with --log-dir (where it is set, with "
            "MA_MOUNT_PATH)"
        ) from error


def _holds(path: Path, document: bytes) -> bool:
    with suppress(OSError):
        return read_regular_file(path, len(document)) == document
    return False


def _first_doubt(plan: Plan, inherited: Mapping[str, str]) -> str:
    """A sentence about words that name no file where a process starts; empty without such.

    Raises CommandNotFound if that is certainly the end. A restart is tried even where the script
    is nowhere: a file system may come late.
    """
    try:
        for spec in plan.specs:
            check_exists(spec, changed(inherited, spec.environ))
    except CommandNotFound as missing:
        if not plan.start.restarts_left and plan.start.cluster is None:
            raise
        return str(missing)
    return left_behind(plan.specs)


async def _tell_waiting(runtime: Runtime) -> None:
    """Report a disk that does not answer: nothing else shows why the ranks do not start."""
    await anyio.sleep(PREPARED_SECONDS)
    text = (
        f"the file system has not answered for {PREPARED_SECONDS:g} s; the ranks start when it does"
    )
    runtime.report(Diagnostic("the ranks' directories and logs", text, None))
    await anyio.sleep_forever()


def prepare_all(specs: Sequence[ProcessSpec], inherited: Mapping[str, str]) -> None:
    """Make the directories, put error files of an earlier life away, look for the commands.

    May block. Raises CannotWrite, CommandNotFound or CannotExecute, before anything is started.
    """
    checked = set()
    made: set[Path] = set()
    for spec in specs:
        _make_directories(spec, made)
        _write_files(spec)
        check_script(spec)
        environ = changed(inherited, spec.environ)
        check_module(spec, environ)
        key = (spec.argv[0], environ.get("PATH"), spec.cwd if "/" in spec.argv[0] else None)
        if key not in checked:
            check_command(spec, environ)
            checked.add(key)


def _make_directories(spec: ProcessSpec, made: set[Path]) -> None:
    needed = spec.directories if _is_our_own(spec.cwd) else (spec.cwd, *spec.directories)
    for directory in needed:
        try:
            make_directories(Path(directory), made)
        except OSError as error:
            what = f"{spec.name}: cannot make the directory {directory}"
            raise _unwritable(what, error, "one with --work-dir or --log-dir") from error
    if spec.error_file is not None:
        with suppress(OSError):
            Path(spec.error_file).unlink()
    _set_aside_earlier(spec)


def _is_our_own(directory: PurePath) -> bool:
    """Whether the supervisor was started there: then it exists, whoever made it."""
    with suppress(OSError):
        return Path(directory).samefile(os.curdir)
    return False


def _set_aside_earlier(spec: ProcessSpec) -> None:
    """Rename to NAME.1 what a launcher's workers left here at an earlier start of the supervisor.

    It would be shown, and believed, as if it were of this one.
    """
    earlier = {Path(log.path) for log in spec.worker_logs}
    with suppress(OSError):
        earlier.update(exhibit_files(spec.testimony) if spec.testimony else ())
    for path in earlier:
        with suppress(OSError):
            move_to(path, Path(f"{path}.1"))


def exhibit_files(testimony: Testimony) -> Iterator[Path]:
    """The files that it may ask for, in no order. Raises OSError."""
    directory, pattern = testimony.exhibits
    return Path(directory).glob(pattern) if pattern else iter(())


def _write_files(spec: ProcessSpec) -> None:
    for path, content in spec.files.items():
        try:
            remove_remnants(Path(path))
            write_atomically(Path(path), content, PRIVATE)
        except OSError as error:
            what = f"{spec.name}: cannot write {path}"
            raise _unwritable(what, error, "directory with --log-dir") from error


def _unwritable(what: str, error: OSError, other: str) -> CannotWrite | Unavailable:
    if lacking := scarcity(error):
        return Unavailable(f"{what}: {lacking}")
    return CannotWrite(f"{what}: {reason_of(error)}; choose another {other}")


RESOLVE_SECONDS = 600.0
"""How long a name may have no address: a pod's name gets one when the pod is placed."""
AGAIN_SECONDS = 1.0
TELL_SECONDS = 2.0
"""All three for a name that has no address yet."""


async def addresses_of(
    hosts: Iterable[HostName], clock: Clock, report: Report, seconds: float = RESOLVE_SECONDS
) -> dict[str, str]:
    """An address for each name; raises Unavailable for one that has none within ``seconds``."""
    found = {}
    for host in hosts:
        lookup = _Lookup(host, clock, report)
        with anyio.move_on_after(seconds):
            found[host.name] = await first(lookup.keep_asking, lookup.tell_waiting)
        if host.name not in found:
            raise Unavailable(
                f"{shown(host.name)}: expected an address of this name within {seconds:g} s, found "
                f"none: {lookup.reason}; see whether its server or pod has been placed, or give an "
                f"address in place of the name in {host.named_by}"
            )
        if ip_address(found[host.name]).is_loopback:
            report(Diagnostic(shown(host.name), _only_here(host, found[host.name]), None))
    return found


def _only_here(host: HostName, address: str) -> str:
    return (
        f"its address is {address} here, which other servers cannot reach; see /etc/hosts, or give "
        f"an address in place of the name in {host.named_by}"
    )


class _Lookup:
    """The wait for one name; ``reason`` is why it has no address yet."""

    def __init__(self, host: HostName, clock: Clock, report: Report) -> None:
        self.reason = "the resolver has not answered"
        self._host = host
        self._clock = clock
        self._report = report

    async def keep_asking(self) -> str:
        while True:
            try:
                return await Call(partial(look_up, self._host)).result()
            except OSError as error:
                self.reason = error.strerror or str(error)
            await self._clock.sleep(AGAIN_SECONDS)

    async def tell_waiting(self) -> NoReturn:
        await self._clock.sleep(TELL_SECONDS)
        text = f"the name has no address yet: {self.reason}; the ranks start when it has one"
        self._report(Diagnostic(shown(self._host.name), text, None))
        await anyio.sleep_forever()
        raise AssertionError


def look_up(host: HostName) -> str:
    """An address of the host; may block. Raises OSError, or SettingsRefused for no host's name."""
    try:
        answers = socket.getaddrinfo(host.name, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise SettingsRefused(
            f"{host.named_by}: expected a host name, found {shown(host.name)} ({error})"
        ) from error
    addresses = [str(answer[4][0]).partition("%")[0] for answer in answers]
    return best(addresses, is_local if host.is_here else lambda _: True)


def best(addresses: Iterable[str], suits: Callable[[str], bool]) -> str:
    """One that other servers can reach, if possible one that ``suits``, if possible of IPv4."""

    def rank(address: str) -> tuple[bool, bool, int]:
        known = ip_address(address)
        return known.is_loopback, not suits(address), known.version

    return min(addresses, key=rank)


def is_local(address: str) -> bool:
    """Whether a program on this machine can listen there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
