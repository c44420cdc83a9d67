"""What was seen of ranks and their processes; values."""

from __future__ import annotations

from msgspec import Struct, field

from ascend_supervisor.output.last_lines import Activity

ENDED = frozenset("ZX")
STOPPED = frozenset("Tt")
STUCK = "D"
RUNNING = "R"
"""States of a process, proc(5)."""


class Subject(Struct, frozen=True):
    """A rank, or a process that serves ranks, and the process at the top of it.

    ``parent`` is the launcher that the process must have as its parent; None if we started it.
    ``others`` are processes below it that are subjects of their own. ``leads_ranks``: which ranks
    are below it is not known yet. ``pid`` is None if it has ended.
    """

    name: str
    rank: int | None
    pid: int | None
    activity: Activity
    log: str
    parent: int | None = None
    others: frozenset[int] = frozenset()
    significant: bool = True
    leads_ranks: bool = False


class Frame(Struct, frozen=True):
    """A call in Python; ``line`` is 0 if it is unknown. The names are a stranger's."""

    name: str
    filename: str
    line: int = 0


class PythonThread(Struct, frozen=True):
    """As py-spy's JSON has it: ``frames`` from the innermost to the outermost."""

    frames: tuple[Frame, ...]
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False


class KernelThread(Struct, frozen=True):
    """What /proc says of a thread; a text is empty where /proc does not say it.

    ``wchan`` is the function of the kernel that it sleeps in, ``system_call`` the name of its
    system call, or its number.
    """

    tid: int
    name: str
    state: str
    wchan: str = ""
    system_call: str = ""
    stack: str = ""


class SeenProcess(Struct):
    """``notes`` say what could not be seen, and why.

    ``start`` is in clock ticks since boot; ``parent`` is the pid of its parent.
    """

    pid: int
    start: int
    parent: int
    description: str
    threads: tuple[KernelThread, ...] = ()
    python: tuple[PythonThread, ...] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def main(self) -> KernelThread | None:
        """Its main thread; the first of the others if that has ended before them."""
        own = next((one for one in self.threads if one.tid == self.pid), None)
        if own is not None and own.state in ENDED:
            return next((one for one in self.threads if one.state not in ENDED), own)
        return own

    @property
    def state(self) -> str:
        """Of this thread; empty if unknown."""
        return "" if self.main is None else self.main.state


class Looked(Struct):
    """A subject, and its processes as they are seen, those above before those below.

    ``output`` is what it has written on a signal; ``would_die``: it did not get that signal,
    because it has no handler for it.
    """

    subject: Subject
    processes: list[SeenProcess] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    output: tuple[str, ...] = ()
    would_die: bool = False
    has_ended: bool = False
