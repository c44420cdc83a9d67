"""The ends of the logs that an operator names: a file, a directory, an archive, stdin.

Of a file only the end is read, whatever its size. In a directory no link is followed, and nothing
but regular files is opened. What kubectl, docker or journalctl put before the lines is taken off.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import nlargest
from pathlib import Path
from typing import IO

from msgspec import Struct

from ascend_supervisor.collection.disks import Disks, FileEntry
from ascend_supervisor.ctl.archived_logs import (
    BROKEN,
    END_BYTES,
    FIRST_BYTES,
    HEAD_BYTES,
    archived_logs,
    end_of_stream,
    is_archive,
    is_log,
)
from ascend_supervisor.ctl.container_logs import Carrier, carrier_of
from ascend_supervisor.ctl.log_starts import LogStart, start_in
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.files.regular_file import NotRegular, reason_of
from ascend_supervisor.untrusted_text import plain

STDIN = 0
MOST_FILES = 1000
"""Of a directory or an archive."""
MOST_DIRECTORIES = 5000
NO_LOG = "there is no log in it: expected names that end in .log, .txt, .out or .err"


class LogEnd(Struct, frozen=True):
    """The last bytes of a log; it ``is_named`` if an operator has named it, and no directory.

    A file may hold those of several pods or the like, each with its ``source``. Of a log in a
    directory or an archive it is told which ``start`` has written it, where that is known.
    """

    file: str
    data: bytes
    is_named: bool = False
    source: str | None = None
    start: LogStart | None = None


def log_ends(name: str, say: Callable[[str], object]) -> Iterator[LogEnd]:
    """Those of the log, directory or archive ``name``, ``-`` for stdin.

    Those of a directory come newest first. What ``kubectl logs`` and the like have put before the
    lines is taken off. ``say`` is told what of it cannot be read. Raises SettingsRefused if nothing
    can.
    """
    where = "stdin" if name == "-" else plain(name)
    try:
        if name != "-" and Path(name).is_dir():
            for log in _in_directory(Path(name), say):
                yield from _carried(log)
            return
        with _opened(name) as file:
            head = file.peek(HEAD_BYTES)
            if not is_archive(head):
                yield from _of_file(name, file, carrier_of(head))
                return
            for log in _in_archive(where, file, head, say):
                yield from _carried(log)
    except OSError as error:
        raise SettingsRefused(f"{where} cannot be read: {reason_of(error)}") from error


def _of_file(name: str, file: io.BufferedReader, carrier: Carrier | None) -> Iterator[LogEnd]:
    """All of it is read where its beginning tells several sources: one may follow another."""
    if carrier is None or not carrier.tells_source:
        yield from _carried(LogEnd(name, _end(file), is_named=True))
    else:
        lines = iter(partial(file.readline, END_BYTES), b"")
        yield from _of_sources(LogEnd(name, b"", is_named=True), carrier.ends(lines, END_BYTES))


def _carried(log: LogEnd) -> Iterator[LogEnd]:
    carrier = carrier_of(log.data)
    if carrier is None:
        yield log
    else:
        lines = log.data.splitlines(keepends=True)
        yield from _of_sources(log, carrier.ends(lines, END_BYTES))


def _of_sources(log: LogEnd, ends: Mapping[str, bytes]) -> Iterator[LogEnd]:
    """Of several, those that tell nothing are not named one by one."""
    is_named = log.is_named and len(ends) == 1
    for source, data in ends.items():
        yield LogEnd(log.file, data, is_named, source or None)


def _opened(name: str) -> io.BufferedReader:
    """A regular file, or what another program writes: ``<(kubectl logs POD)`` is a pipe."""
    if name == "-":
        return open(STDIN, "rb", closefd=False)
    mode = Path(name).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise NotRegular(mode)
    return Path(name).open("rb")


def _end(file: IO[bytes]) -> bytes:
    if file.seekable():
        file.seek(max(file.seek(0, os.SEEK_END) - END_BYTES, 0))
    return end_of_stream(file)


def _in_archive(
    where: str, file: IO[bytes], head: bytes, say: Callable[[str], object]
) -> Iterator[LogEnd]:
    """What was read before it turned out to be broken counts."""
    found = 0
    try:
        for name, first, data in archived_logs(file, head):
            if found == MOST_FILES:
                say(f"{where}: {MOST_FILES} logs were read, and no more")
                return
            found += 1
            yield LogEnd(name, data, start=start_in(first))
        if not found:
            say(f"{where}: {NO_LOG}")
    except BROKEN as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        told = f"{where} cannot be read to its end as a tar archive: {reason}"
        if not found:
            raise SettingsRefused(f"{told}; unpack it first") from error
        say(told)


def _in_directory(top: Path, say: Callable[[str], object]) -> Iterator[LogEnd]:
    disks = Disks()
    found = list(_logs_below(top, disks, say))
    if not found:
        say(f"{plain(str(top))}: {NO_LOG}")
    for entry in nlargest(MOST_FILES, found, key=lambda one: (one.mtime, str(one.path))):
        try:
            with disks.opened(entry.path) as file:
                begin = partial(os.pread, file.descriptor, FIRST_BYTES, 0)
                first = disks.ask(entry.path.parent, begin)
                end = b"".join(disks.end_of(file, min(file.size, END_BYTES)))
        except OSError as error:
            say(f"{plain(str(entry.path))} cannot be read: {reason_of(error)}")
        else:
            yield LogEnd(str(entry.path), end, start=start_in(first))
    if len(found) > MOST_FILES:
        say(f"{plain(str(top))}: of {len(found)} logs the newest {MOST_FILES} were read")


def _logs_below(top: Path, disks: Disks, say: Callable[[str], object]) -> Iterator[FileEntry]:
    to_do = [top]
    for _ in range(MOST_DIRECTORIES):
        if not to_do:
            return
        directory = to_do.pop()
        try:
            yield from (one for one in disks.files_in(directory) if is_log(one.path.name))
            to_do += disks.directories_in(directory)
        except OSError as error:
            if directory == top:
                raise
            say(f"{plain(str(directory))} cannot be read: {reason_of(error)}")
    say(f"{plain(str(top))}: {MOST_DIRECTORIES} directories were looked at, and no more")
