"""What /proc says about processes, at the moment of each call.

A process that is gone, or that we may not inspect, has no children, no name and no files.

The main thread of a process may end before its others. Then /proc/PID shows a zombie without files,
environment and command line, although the process lives: its other threads show them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.processes.process_memory import BytesOrError, ProcessMemory
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.untrusted_text import printable

COMMAND_CHARACTERS = 200
MASKED_BYTES = 4096
"""So much of a command line is searched for secrets before it is cut: half a one is not known."""
PROC = Path("/proc")
MOST_RESIDENTS = 1024
_DEAD = frozenset({"Z", "X"})


def read(path: Path | str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (half the time of read_bytes)
        return file.read()


_MEMORY = ProcessMemory(read)


class Stat(Struct, frozen=True):
    """What /proc/PID/stat says, proc(5); ``start`` is in clock ticks since boot.

    ``state`` is that of the main thread, or of another one if that has ended before it.
    """

    state: str
    parent: int
    group: int
    session: int
    start: int

    @property
    def is_dead(self) -> bool:
        """Whether all of it has ended and was only not reaped yet."""
        return self.state in _DEAD


def pids(proc: Path = PROC) -> Iterator[int]:
    """All process ids in our PID namespace; raises OSError."""
    for name in os.listdir(proc):  # noqa: PTH208  (twice as fast as iterdir, and asked often)
        if name.isdigit():
            yield int(name)


def descendants(pid: int, proc: Path = PROC) -> list[int]:
    """Children, their children and so on; zombies too."""
    found: list[int] = []
    ahead = [pid]
    while ahead:
        below = children(ahead.pop(), proc)
        found += below
        ahead += below
    return found


def children(pid: int, proc: Path = PROC) -> list[int]:
    """Zombies too; raises OSError at EMFILE and the like."""
    found: list[int] = []
    for task in listed(f"{proc}/{pid}/task"):
        try:
            text = read(f"{proc}/{pid}/task/{task}/children")
        except FileNotFoundError:
            if (proc / str(pid) / "task" / task).exists():  # a kernel without CONFIG_PROC_CHILDREN
                return [child for child in pids(proc) if parent(child, proc) == pid]
            continue
        except OSError as error:
            raise_if_scarce(error)
            continue
        found += map(int, text.split())
    return found


def stat(pid: int, proc: Path = PROC) -> Stat | None:
    """None if it is gone; raises OSError at EMFILE and the like."""
    fields = _stat_fields(f"{proc}/{pid}")
    if not fields:
        return None
    state = fields[0].decode()
    if state in _DEAD and int(fields[17]) > 1:
        state = next((state for _, state in _living_threads(pid, proc)), state)
    parent, group, session = map(int, fields[1:4])
    return Stat(state, parent, group, session, int(fields[19]))


def _stat_fields(place: str) -> list[bytes]:
    """From the third field on: the second, a name, may hold any bytes, parentheses too."""
    try:
        return read(f"{place}/stat").rpartition(b")")[2].split()
    except OSError as error:
        raise_if_scarce(error)
        return []


def _living_threads(pid: int, proc: Path) -> Iterator[tuple[str, str]]:
    """The number and the state of each thread that has not ended; raises OSError at EMFILE."""
    for task in listed(f"{proc}/{pid}/task"):
        fields = _stat_fields(f"{proc}/{pid}/task/{task}")
        if fields and (state := fields[0].decode()) not in _DEAD:
            yield task, state


def in_place_of_main_thread(pid: int, proc: Path) -> str | None:
    """The directory of a thread that shows what its dead main thread does not; None if alive."""
    fields = _stat_fields(f"{proc}/{pid}")
    if not fields or fields[0].decode() not in _DEAD or int(fields[17]) == 1:
        return None
    return next((f"{proc}/{pid}/task/{task}" for task, _ in _living_threads(pid, proc)), None)


def listed(directory: str) -> list[str]:
    """Empty if it cannot be listed; raises OSError at EMFILE and the like."""
    try:
        return os.listdir(directory)  # noqa: PTH208
    except OSError as error:
        raise_if_scarce(error)
        return []


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """The memory that a process has, with what it shares; 0 if it is gone."""
    fields = _stat_fields(f"{proc}/{pid}")
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


class Resident(Struct, frozen=True):
    """A process and the memory that it has, in bytes."""

    pid: int
    parent: int
    name: str
    size: int


def residents(proc: Path = PROC) -> Iterator[Resident]:
    """The processes that can be seen, the first MOST_RESIDENTS; raises OSError at EMFILE."""
    page = os.sysconf("SC_PAGE_SIZE")
    for pid in islice(pids(proc), MOST_RESIDENTS):
        if fields := _stat_fields(f"{proc}/{pid}"):
            yield Resident(pid, int(fields[1]), name(pid, proc), int(fields[21]) * page)


def raise_if_scarce(error: OSError) -> None:
    """EMFILE does not prove that the process has exited."""
    if scarcity(error):
        raise error


def parent(pid: int, proc: Path = PROC) -> int | None:
    found = stat(pid, proc)
    return found.parent if found else None


def is_below(pid: int, ancestor: int, proc: Path = PROC) -> bool:
    """Whether it is a descendant; raises OSError at EMFILE and the like."""
    above = parent(pid, proc)
    while above is not None and above > 0 and above != ancestor:
        above = parent(above, proc)
    return above == ancestor


def start_time(pid: int, proc: Path = PROC) -> int | None:
    """Clock ticks from boot to its start: together with the pid it is unique."""
    found = stat(pid, proc)
    return found.start if found else None


def is_zombie(pid: int, proc: Path = PROC) -> bool:
    found = stat(pid, proc)
    return found is not None and found.is_dead


def main_thread_has_ended(pid: int, proc: Path = PROC) -> bool:
    """Whether its main thread is a zombie; others may live, or be stuck in the kernel."""
    fields = _stat_fields(f"{proc}/{pid}")
    return bool(fields) and fields[0].decode() in _DEAD


def is_alive(pid: int, proc: Path = PROC) -> bool:
    """Whether there is such a process that is no zombie; raises OSError at EMFILE and the like."""
    found = stat(pid, proc)
    return found is not None and not found.is_dead


class Dispositions(Struct, frozen=True):
    """Which signals a process blocks, ignores and has a handler for: masks, proc(5)."""

    blocked: int = 0
    ignored: int = 0
    caught: int = 0

    def catches(self, number: int) -> bool:
        return bool(self.caught >> (number - 1) & 1)

    def ignores(self, number: int) -> bool:
        return bool(self.ignored >> (number - 1) & 1)

    def handles(self, number: int) -> bool:
        """Whether it has a handler, or blocks the signal to read it otherwise (signalfd)."""
        return bool((self.caught | self.blocked) >> (number - 1) & 1)


def dispositions(pid: int, proc: Path = PROC) -> Dispositions:
    """None of any signal if that is unknown."""
    try:
        lines = read(f"{proc}/{pid}/status").splitlines()
    except OSError:
        return Dispositions()
    found = {name: mask for name, _, mask in (line.partition(b":") for line in lines)}
    masks = (int(found.get(name, b"0"), 16) for name in (b"SigBlk", b"SigIgn", b"SigCgt"))
    return Dispositions(*masks)


def catches(pid: int, number: int, proc: Path = PROC) -> bool:
    """Whether it has a handler for this signal; False if that is unknown."""
    return dispositions(pid, proc).catches(number)


def waits_for_child(pid: int, proc: Path = PROC) -> bool:
    """Whether its main thread waits for a child to end; False if the kernel does not say so."""
    with suppress(OSError):
        return read(f"{proc}/{pid}/wchan") == b"do_wait"
    return False


def name(pid: int, proc: Path = PROC) -> str:
    """Its name (comm), which can be read even if the process is stuck."""
    try:
        name = read(f"{proc}/{pid}/comm")
    except OSError as error:
        raise_if_scarce(error)
        return ""
    return name.decode(errors="replace").removesuffix("\n")


def program(pid: int, proc: Path = PROC) -> str:
    """The name of the file that it runs: for a script, that of its interpreter."""
    with suppress(OSError):
        return os.path.basename(os.readlink(f"{proc}/{pid}/exe"))  # noqa: PTH115, PTH119
    return name(pid, proc)


def words(pid: int, proc: Path = PROC) -> list[str]:
    """Its command line."""
    return command_lines([pid], proc)[0]


def command_lines(numbers: Sequence[int], proc: Path = PROC) -> list[list[str]]:
    """The words of each; none where they cannot be read."""
    return [
        [os.fsdecode(word) for word in line.removesuffix(b"\0").split(b"\0")] if line else []
        for line in _memory("cmdline", numbers, proc)
    ]


def environ(pid: int, proc: Path = PROC) -> Mapping[bytes, bytes]:
    """The environment it was started with; empty if not permitted, or not read within a second."""
    (block,) = _memory("environ", [pid], proc)
    return dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)


def started_with(variable: bytes, numbers: Sequence[int], proc: Path = PROC) -> list[int]:
    """Those of ``numbers`` in whose environment ``variable`` is, as far as that can be read."""
    entry = b"\0" + variable + b"="
    blocks = zip(numbers, _memory("environ", numbers, proc), strict=True)
    return [pid for pid, block in blocks if entry in b"\0" + block]


def _memory(name: str, numbers: Sequence[int], proc: Path) -> list[bytes]:
    """The file ``name`` of each; empty where it cannot be read."""
    contents = _contents(name, numbers, proc)
    for error in contents:
        if isinstance(error, OSError):
            raise_if_scarce(error)
    return [b"" if isinstance(content, OSError) else content for content in contents]


def _contents(name: str, numbers: Sequence[int], proc: Path) -> list[BytesOrError]:
    """The file ``name`` of each, or why it cannot be read; raises OSError at EMFILE."""
    contents = _MEMORY.read_all([proc / str(pid) / name for pid in numbers])
    for index, (pid, content) in enumerate(zip(numbers, contents, strict=True)):
        is_shown = isinstance(content, TimeoutError) or (content and isinstance(content, bytes))
        place = None if is_shown else in_place_of_main_thread(pid, proc)
        if place is not None:
            contents[index : index + 1] = _MEMORY.read_all([Path(place, name)])
    return contents


def limit_of_locks(pid: int, proc: Path = PROC) -> int | None:
    """Its soft RLIMIT_LOCKS, which can be read even if the process is stuck; None: unlimited."""
    try:
        content = read(f"{proc}/{pid}/limits")
    except OSError as error:
        raise_if_scarce(error)
        return None
    soft = content.partition(b"Max file locks")[2].split(None, 1)[:1]
    return int(soft[0]) if soft and soft[0].isdigit() else None


def in_our_pid_namespace(pid: int, proc: Path = PROC) -> bool:
    try:
        theirs = (proc / str(pid) / "ns" / "pid").readlink()
        return theirs == (proc / "self" / "ns" / "pid").readlink()
    except OSError:
        return False


def description(pid: int, proc: Path = PROC) -> str:
    """The process for people: pid, state, kernel function it waits in, masked command line."""
    try:
        found = stat(pid, proc)
    except OSError as error:
        return f"{pid} (cannot be looked at: {error.strerror})"
    if found is None:
        return f"{pid} (gone)"
    place = in_place_of_main_thread(pid, proc) or f"{proc}/{pid}"
    try:
        waits = Path(place, "wchan").read_text().strip()
    except OSError:
        waits = ""
    where = f" in {waits}" if waits not in {"", "0"} else ""
    return f"{pid} (state {found.state}{where}): {_command(pid, proc) or 'no command line'}"


def _command(pid: int, proc: Path) -> str:
    """Its command line for people; empty if it has none."""
    try:
        (content,) = _contents("cmdline", [pid], proc)
    except OSError as error:
        content = error
    if isinstance(content, TimeoutError):
        return "its command line cannot be read now"
    if isinstance(content, OSError):
        return ""
    from ascend_supervisor.processes.secrets import masked_words  # noqa: PLC0415  (probes need none)

    words = content[:MASKED_BYTES].decode(errors="backslashreplace").split("\0")
    text = " ".join(masked_words(words)).strip()
    return printable(text, COMMAND_CHARACTERS)
