"""Invariants 1, 2 and 11 of docs/ARCHITECTURE.md: floors, pure rooms, one reader of the world.

Every checker gives a list of complaints, and is shown to complain about a bad snippet.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).parents[1]
PACKAGE = "ascend_supervisor"
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"

PURE = re.compile(r"\b(?:pure|values)\b")
"""What a module that touches no world says in the first paragraph of its docstring."""
IMPURE = frozenset({"launchers.choice", "report.page"})
"""Looks up what is installed here; reads its template."""
WORLDLY = frozenset(
    {
        *("anyio", "asyncio", "os", "random", "signal", "socket", "subprocess", "time"),
        *("watchfiles", "threading", "multiprocessing", "shutil", "tempfile", "select", "fcntl"),
        "ctypes",
    }
)
NOT_WORLDLY = frozenset(
    {
        ("outcome", "signal.Signals"),
        ("evidence.diagnosed", "signal.Signals"),
        ("settings.readers", "signal.Signals"),
        ("settings.precedence", "signal.Signals"),
    }
)
"""A table of names, no act."""

OF_THE_PROGRAM = frozenset(
    {
        *("sys.argv", "sys.orig_argv", "os.environ", "os.environb", "os.getenv", "os.getenvb"),
        *("os.putenv", "os.unsetenv", "signal.signal", "signal.set_wakeup_fd"),
        ".add_signal_handler",
    }
)
PROGRAMS = frozenset({"caught_signals", "cli", "imports", "ctl.main"})

FILE_LINES, FUNCTION_LINES = 360, 45

OWNER_OF_WAITS = "processes.children"
WAITS = frozenset(
    {
        *("os.wait", "os.waitpid", "os.wait3", "os.wait4", "os.waitid", "os.system", "os.popen"),
        *("os.fork", "os.forkpty", "os.posix_spawn", "os.posix_spawnp", "os.spawnv", "os.spawnvp"),
        *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", ".communicate"),
        *("anyio.run_process", "anyio.open_process", ".subprocess_exec"),
    }
)
BEFORE_ALL = frozenset(
    (module, f"subprocess.{name}")
    for module in ("processes.kernel", "workers.module_search")
    for name in ("run", "TimeoutExpired", "DEVNULL", "SubprocessError")
) | {
    *(("ctl.line_selection", f"subprocess.{name}") for name in ("Popen", "PIPE", "DEVNULL")),
    *(
        ("processes.program_output", f"subprocess.{name}")
        for name in ("Popen", "PIPE", "DEVNULL", "STDOUT", "TimeoutExpired")
    ),
    *(
        ("trial.supervised", f"subprocess.{name}")
        for name in ("Popen", "PIPE", "DEVNULL", "TimeoutExpired")
    ),
}
"""setpriv and setsid are called, and have answered, before anybody else waits.

The Python that a plan asks for a module is the last process of a program that starts no job, and
ctl, which starts grep, asks programs for an archive and tries supervisors, is none.
"""
BESIDE_US = frozenset(
    f"programs.{name}"
    for name in (
        *("guardian", "mpirun_head", "mpirun_node", "trial_rank", "warm_imports", "warm_rank"),
    )
)
"""Programs of their own, which import nothing of ours."""

GENERAL = ("processes/", "files/", "tasks/", "etcd/")
"""Rooms that would make sense in a program without NPUs."""
FOR_ALL = frozenset({"untrusted_text", "scarcity"})

SAYS_SO = '"""What becomes of what; pure."""\n'
Trees = Mapping[str, ast.Module]
Floors = Mapping[str, int]


def snippets(**sources: str) -> Trees:
    """A package of these modules; ``a__b`` is the module a.b."""
    return {name.replace("__", "."): ast.parse(source) for name, source in sources.items()}


@cache
def trees() -> Trees:
    """Our modules by the names that they have in the package; ``__init__`` is the package."""
    folder = ROOT / PACKAGE
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "__init__"
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


class Ours(Mapping[str, ast.Module]):
    """``trees()``, parsed when they are asked for: whoever collects the tests needs none."""

    def __getitem__(self, name: str) -> ast.Module:
        return trees()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(trees())

    def __len__(self) -> int:
        return len(trees())


OURS = Ours()


# Who imports whom.


@cache
def imported(tree: ast.AST) -> tuple[tuple[str, str], ...]:
    """Every import, inside functions and for type checking too: what, and under which name."""
    return tuple(_imported(tree))


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield f"{module}.{alias.name}", alias.asname or alias.name


def own_imports(name: str, modules: Trees) -> set[str]:
    """The modules of ours that this one imports; ``?`` and what was written where there is none."""
    found = set()
    for target, _ in imported(modules[name]):
        if target.startswith("."):
            found.add(f"? {target}")
        elif target == PACKAGE or target.startswith(f"{PACKAGE}."):
            inside = target[len(PACKAGE) + 1 :]
            outer = inside.rpartition(".")[0]
            candidates = (inside, outer or "__init__")
            found.add(next((one for one in candidates if one in modules), f"? {target}"))
    return found


def floors_of(page: str) -> Floors:
    """The floor of each room, as the page says between its markers; a folder ends with ``/``."""
    block = page.partition("<!-- floors:begin -->")[2].partition("<!-- floors:end -->")[0]
    lines = [line.split() for line in block.splitlines() if line[:1].isdigit()]
    return {room: int(floor) for floor, *rooms in lines for room in rooms}


def floor_of(name: str, floors: Floors) -> int | None:
    return floors.get(name, floors.get(name.partition(".")[0] + "/"))


def homeless(modules: Trees, floors: Floors) -> list[str]:
    missing = [
        f"{name} has no floor: give it one in {ARCHITECTURE.name}"
        for name in modules
        if floor_of(name, floors) is None
    ]
    names = {*modules, *(f"{name.partition('.')[0]}/" for name in modules)}
    return missing + [f"{room} has a floor, but is no module" for room in floors.keys() - names]


def upward(modules: Trees, floors: Floors) -> list[str]:
    """The imports that go up, or to nothing."""
    complaints = []
    for name in modules:
        for target in sorted(own_imports(name, modules)):
            if target.startswith("?"):
                complaints.append(f"{name} imports {target[2:]}, which is no module of ours")
            elif (floor_of(target, floors) or 0) > (floor_of(name, floors) or 0):
                complaints.append(f"{name} imports {target}, which is above it")
    return complaints


def circles(modules: Trees) -> list[str]:
    graph = {name: own_imports(name, modules) - {name} for name in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"imports go in a circle: {' <- '.join(error.args[1])}"]
    return []


def room_of(name: str, modules: Trees) -> str:
    """Its folder, with ``/``, or itself."""
    room = name.partition(".")[0]
    return f"{room}/" if any(one.startswith(f"{room}.") for one in modules) else room


def circles_of_rooms(modules: Trees) -> list[str]:
    """A folder is one room: what its files import from others goes in no circle."""
    graph: dict[str, set[str]] = {}
    for name in modules:
        room = room_of(name, modules)
        others = {room_of(target, modules) for target in own_imports(name, modules)}
        graph.setdefault(room, set()).update(others - {room})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"rooms import each other: {' <- '.join(error.args[1])}"]
    return []


def too_special(modules: Trees) -> list[str]:
    """What the general rooms import, besides each other, of this very program."""
    return [
        f"{name} is general, but imports {target}"
        for name in modules
        if room_of(name, modules) in GENERAL
        for target in sorted(own_imports(name, modules) - FOR_ALL)
        if room_of(target, modules) not in GENERAL
    ]


FLOORS = floors_of(ARCHITECTURE.read_text(encoding="utf-8"))


def test_the_page_has_a_table_of_floors():
    assert sorted(set(FLOORS.values())) == list(range(12))
    assert floors_of("<!-- floors:begin -->\n1 a b/\n0 c\n<!-- floors:end -->\n2 d") == {
        "a": 1,
        "b/": 1,
        "c": 0,
    }


def test_every_module_has_a_floor_and_every_floor_its_modules():
    assert homeless(OURS, FLOORS) == []


def test_imports_never_go_up():
    assert upward(OURS, FLOORS) == []


def test_imports_never_go_in_a_circle():
    assert circles(OURS) == []


def test_rooms_never_import_each_other():
    assert circles_of_rooms(OURS) == []


def test_rooms_that_import_each_other_are_told():
    there, back = "import ascend_supervisor.b.y", "import ascend_supervisor.a.x"
    modules = snippets(a__w=there, a__x="", b__y="", b__z=back)
    (complaint,) = circles_of_rooms(modules)
    assert complaint.startswith("rooms import each other: ")
    assert circles(modules) == []


def test_general_rooms_know_no_exit_code_and_nothing_else_of_this_program():
    assert too_special(OURS) == []


def test_a_general_room_that_knows_this_program_is_told():
    knows = "from ascend_supervisor.errors import Unavailable"
    harmless = "from ascend_supervisor.untrusted_text import plain"
    modules = snippets(
        files__disk=knows, tasks__x=harmless, restart_policy=knows, errors="", untrusted_text=""
    )
    assert too_special(modules) == ["files.disk is general, but imports errors"]


def test_a_module_without_a_floor_is_told():
    complaints = homeless(snippets(new="", processes__pipe=""), {"processes/": 1, "old": 0})
    assert complaints == [
        "new has no floor: give it one in ARCHITECTURE.md",
        "old has a floor, but is no module",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import ascend_supervisor.high",
        "from ascend_supervisor.high import thing",
        "from ascend_supervisor import high",
        "def f():\n    from ascend_supervisor.high import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ascend_supervisor.high",
        "try:\n    import ascend_supervisor.high as low\nexcept ImportError:\n    pass",
    ],
)
def test_an_import_that_goes_up_is_told_wherever_it_stands(source):
    modules = snippets(low=source, high="")
    assert upward(modules, {"low": 0, "high": 1}) == ["low imports high, which is above it"]
    assert upward(modules, {"low": 1, "high": 1}) == []


@pytest.mark.parametrize("source", ["from . import high", "from .high import x"])
def test_an_import_that_cannot_be_followed_is_told(source):
    (complaint,) = upward(snippets(low=source, high=""), {"low": 1, "high": 0})
    assert complaint.startswith("low imports .")


def test_a_circle_is_told():
    there, back = "import ascend_supervisor.b", "from ascend_supervisor import a"
    (complaint,) = circles(snippets(a=there, b=back))
    assert complaint.startswith("imports go in a circle: ")
    assert circles(snippets(a=there, b="")) == []


# What is pure.


def is_pure(name: str, modules: Trees) -> bool:
    """Whether its docstring says so, or that of a folder around it."""
    parts = name.split(".")
    around = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return name not in IMPURE and any(_says_so(modules[one]) for one in around if one in modules)


def _says_so(tree: ast.Module) -> bool:
    first, _, _ = (ast.get_docstring(tree) or "").partition("\n\n")
    return PURE.search(first) is not None


def impure(modules: Trees) -> list[str]:
    """The imports by which what is pure would touch the world, itself or through others."""
    return [
        f"{name} is pure, but imports {target}"
        for name in modules
        if is_pure(name, modules)
        for target in sorted(
            {
                target
                for target, _ in imported(modules[name])
                if target.partition(".")[0] in WORLDLY and (name, target) not in NOT_WORLDLY
            }
            | {
                one
                for one in own_imports(name, modules)
                if one != "__init__" and not is_pure(one, modules)
            }
        )
    ]


def test_what_is_pure_touches_no_world():
    assert impure(OURS) == []


def test_as_much_is_pure_as_ever():
    """A module that is no longer pure loses the word, and then this number goes down."""
    assert sum(is_pure(name, OURS) for name in OURS) >= 124


def test_what_the_page_calls_pure_is_held_to_it():
    rooms = [line for line in ARCHITECTURE.read_text().splitlines() if line.startswith("| `")]
    called = {line.split("`")[1].removesuffix(".py") for line in rooms if "pure" in line}
    assert {"restart_policy", "settings/", "launchers/"} <= called
    names = {room.removesuffix("/").replace("/", ".") for room in called}
    assert {name for name in names if not is_pure(name, OURS)} == set()


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("restart_policy", "import time", "time"),
        ("restart_policy", "import os.path", "os.path"),
        ("restart_policy", "def f():\n    from random import random", "random.random"),
        ("launchers__new", "import anyio.lowlevel", "anyio.lowlevel"),
        ("outcome", "import signal", "signal"),
        ("outcome", "from signal import SIGTERM, Signals", "signal.SIGTERM"),
        ("restart_policy", "from signal import Signals", "signal.Signals"),
        ("restart_policy", "import ascend_supervisor.worldly", "worldly"),
    ],
)
def test_an_import_of_the_world_is_told(name, source, target):
    modules = snippets(**{name: f"{SAYS_SO}{source}", "worldly": ""})
    assert impure(modules) == [f"{name.replace('__', '.')} is pure, but imports {target}"]


def test_a_folder_says_it_for_its_modules():
    modules = snippets(launchers=SAYS_SO, launchers__new="import time", workers__new="import time")
    assert impure(modules) == ["launchers.new is pure, but imports time"]


def test_names_of_signals_are_no_world():
    pure = f"{SAYS_SO}from signal import Signals"
    assert impure(snippets(outcome=pure, process="import os")) == []


# What is read in one sitting, and found by its name.


def too_long(modules: Trees) -> list[str]:
    """The files of more than 360 lines, and the functions of more than 45."""
    files = {name: tree.body[-1].end_lineno or 0 for name, tree in modules.items() if tree.body}
    functions = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return [
        f"{name} has {lines} lines"
        for sizes, limit in ((files, FILE_LINES), (functions, FUNCTION_LINES))
        for name, lines in sizes.items()
        if lines > limit
    ]


def named_twice(modules: Trees) -> list[str]:
    """Classes, and other names of types, that two files define."""
    places: dict[str, list[str]] = {}
    for name, tree in modules.items():
        for one in _types(tree):
            places.setdefault(one, []).append(name)
    return [f"{one} is in {' and '.join(names)}" for one, names in places.items() if names[1:]]


def _types(tree: ast.Module) -> Iterator[str]:
    """The names of classes, and what is assigned to a name that begins as one does."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (target.id for target in targets if isinstance(target, ast.Name))
            yield from (one for one in names if re.fullmatch("[A-Z][a-z][A-Za-z]*", one))


def given_anew(modules: Trees) -> list[str]:
    """Names that a file gives twice: what was meant by the first one reads the second one."""
    return [
        f"{name} gives {one} anew"
        for name, tree in modules.items()
        for one, count in Counter(_names(tree)).items()
        if count > 1
    ]


def _names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_no_file_gives_a_name_anew():
    assert given_anew(OURS) == []
    assert given_anew(snippets(a="X = 1\nX = 2", b="X = 1")) == ["a gives X anew"]


def test_no_file_and_no_function_is_too_long():
    assert too_long(OURS) == []


def test_no_class_is_named_twice():
    assert named_twice(OURS) == []


def test_what_is_too_long_is_found():
    modules = snippets(a="x = 1\n" * 361, b="def f():\n" + "    x = 1\n" * 45)
    assert too_long(modules) == ["a has 361 lines", "b.f has 46 lines"]


def test_what_is_named_twice_is_found():
    modules = snippets(a="class Place: ...\nLIMIT = 1", b="Place = int\nLIMIT = 1")
    assert named_twice(modules) == ["Place is in a and b"]


# Who speaks to the world.


@cache
def mentions(tree: ast.AST) -> frozenset[str]:
    """What is imported or reached from it, in full (``os.environ``); other attributes as ``.x``."""
    full: dict[str, str] = {}
    found = set()
    for target, name in imported(tree):
        found.add(target)
        top = target.partition(".")[0]
        full[name] = top if name == top else target
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(f".{node.attr}")
            if isinstance(node.value, ast.Name) and node.value.id in full:
                found.add(f"{full[node.value.id]}.{node.attr}")
    return frozenset(found)


def readers_of_the_world(modules: Trees) -> list[str]:
    return [
        f"{name} mentions {what}, which only {', '.join(sorted(PROGRAMS))} may"
        for name in modules
        if name not in PROGRAMS | BESIDE_US
        for what in sorted(mentions(modules[name]) & OF_THE_PROGRAM)
    ]


def second_waiters(modules: Trees) -> list[str]:
    """Who else starts, or waits for, processes."""
    complaints = []
    for name in modules.keys() - BESIDE_US:
        found = mentions(modules[name])
        if name == OWNER_OF_WAITS:
            waits = found & {".communicate", ".poll", "subprocess.run", "os.wait"}
        else:
            waits = found & WAITS | {what for what in found if what.startswith("subprocess.")}
        complaints += [
            f"{name} mentions {what}, which is the business of {OWNER_OF_WAITS}.reap"
            for what in sorted(waits)
            if (name, what) not in BEFORE_ALL
        ]
    return complaints


def test_only_the_programs_read_argv_and_environ_and_install_handlers():
    assert readers_of_the_world(OURS) == []
    assert {"sys.argv", "os.environ"} <= mentions(OURS["cli"]) & mentions(OURS["ctl.main"])


def test_programs_of_their_own_need_nothing_of_ours_and_nobody_imports_them():
    assert {name for name in OURS if name.startswith("programs.")} == BESIDE_US
    for program in BESIDE_US:
        assert own_imports(program, OURS) == set()
        assert not [name for name in OURS if program in own_imports(name, OURS)]


def test_one_module_waits_for_processes():
    assert second_waiters(OURS) == []
    assert "os.wait4" in mentions(OURS[OWNER_OF_WAITS])


def calls_of(tree: ast.AST, names: frozenset[str]) -> Iterator[tuple[str, set[str]]]:
    """The calls of these functions, each with what its arguments mention."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in names:
            inside = [part for argument in node.args for part in ast.walk(argument)]
            yield name, {ast.unparse(part) for part in inside if isinstance(part, ast.Attribute)}


def test_one_call_waits_for_processes_and_none_stands_still():
    calls = list(calls_of(OURS[OWNER_OF_WAITS], WAITS))
    assert all("os.WNOHANG" in flags for _, flags in calls)
    assert [name for name, flags in calls if "os.WNOWAIT" not in flags] == ["os.wait4"]


def test_what_reads_the_state_file_signals_nobody():
    signals = {"os.kill", "os.killpg", "signal.pidfd_send_signal", ".send_signal", ".terminate"}
    readers = {"reporters.job_status", *(name for name in OURS if name.startswith("ctl."))}
    assert {"ctl.main", "ctl.state"} < readers < OURS.keys()
    found = {name for name in OURS if mentions(OURS[name]) & signals}
    assert found
    assert found & readers == set()


ABSENT_BEFORE_GLIBC_2_28 = frozenset(
    {
        *("os.memfd_create", "os.copy_file_range", "os.preadv", "os.pwritev", "os.eventfd"),
        *("os.pidfd_open", "os.P_PIDFD", "os.splice", "os.setns", "os.unshare", "os.getrandom"),
        *("os.posix_spawn", "os.O_TMPFILE", "os.MFD_CLOEXEC", "signal.pidfd_send_signal"),
    }
)
"""Python has these names only where it was built with a C library that has them: conda's often is
built with glibc 2.17."""


def test_what_a_python_for_an_old_c_library_lacks_is_asked_for_by_getattr():
    assert {
        name: found for name in OURS if (found := mentions(OURS[name]) & ABSENT_BEFORE_GLIBC_2_28)
    } == {}


def test_one_module_starts_threads():
    """The others would not know what to say when there is no room for one."""
    starters = {"anyio.to_thread", "threading.Thread", "asyncio.to_thread", ".run_in_executor"}
    found = {name for name in OURS if mentions(OURS[name]) & starters}
    assert found == {"tasks.threads"}


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import sys\nprint(sys.argv)", "sys.argv"),
        ("from sys import argv", "sys.argv"),
        ("import os as o\no.environ['x']", "os.environ"),
        ("from os import environ as e", "os.environ"),
        ("import os\nos.getenv('x')", "os.getenv"),
        ("import signal\nsignal.signal(15, print)", "signal.signal"),
        ("import asyncio\nasyncio.get_running_loop().add_signal_handler", ".add_signal_handler"),
    ],
)
def test_another_reader_of_the_world_is_told(source, what):
    (complaint,) = readers_of_the_world(snippets(processes__pump=source))
    assert complaint == (
        f"processes.pump mentions {what}, which only caught_signals, cli, ctl.main, imports may"
    )
    assert readers_of_the_world(snippets(cli=source, ctl__main=source)) == []


@pytest.mark.parametrize(
    ("name", "source", "what"),
    [
        ("process", "import os\nos.waitpid(-1, 0)", "os.waitpid"),
        ("process", "from os import wait4", "os.wait4"),
        ("process", "def f(child):\n    child.communicate()", ".communicate"),
        ("process", "from subprocess import Popen\nPopen('x').wait()", "subprocess.Popen"),
        ("process", "import subprocess\nsubprocess.run('x')", "subprocess.run"),
        ("process", "import anyio\nanyio.open_process", "anyio.open_process"),
        ("processes__kernel", "import subprocess\nsubprocess.Popen", "subprocess.Popen"),
        ("processes__children", "def f(child):\n    child.poll()", ".poll"),
    ],
)
def test_a_second_waiter_is_told(name, source, what):
    (complaint,) = second_waiters(snippets(**{name: source}))
    assert complaint.startswith(f"{name.replace('__', '.')} mentions {what}, which is the business")


def test_an_event_that_is_waited_for_is_no_process():
    harmless = "import os\nasync def f(event):\n    await event.wait()\n    os.kill(1, 0)"
    assert second_waiters(snippets(process=harmless)) == []


# Who knows all settings.


READ_THEM = ("program.", "settings.")
READ_THEM_TOO = frozenset({"ctl.finding", "doctor.server_of_job"})
"""ascend-supervisorctl reads the same variables, to find the state file, and to check a server."""


def know_all_settings(modules: Trees) -> list[str]:
    """The files that take every option's value where a part needs a few."""
    return [
        f"{name} imports settings.precedence: give it the values that it needs (program/premises)"
        for name in modules
        if not name.startswith(READ_THEM) and name not in READ_THEM_TOO
        if "settings.precedence" in own_imports(name, modules)
    ]


def test_only_the_program_knows_all_settings_and_parts_get_the_values_that_they_need():
    assert know_all_settings(OURS) == []
    assert "settings.precedence" in own_imports("program.premises", OURS)
    assert all("settings.precedence" in own_imports(name, OURS) for name in READ_THEM_TOO)


@pytest.mark.parametrize(
    "source",
    [
        "from ascend_supervisor.settings.precedence import Settings",
        "from ascend_supervisor.settings import precedence",
        "def f():\n    from ascend_supervisor.settings.precedence import Settings",
        "if TYPE_CHECKING:\n    from ascend_supervisor.settings.precedence import Settings",
    ],
)
def test_a_part_that_takes_all_settings_is_told(source):
    modules = snippets(
        launchers__choice=source,
        program__wiring=source,
        settings=SAYS_SO,
        settings__precedence="",
        settings__sources=source,
    )
    (complaint,) = know_all_settings(modules)
    assert complaint.startswith("launchers.choice imports settings.precedence: ")


# What only some users have installed.


def importers(modules: Trees, library: str) -> set[str]:
    return {
        name
        for name, tree in modules.items()
        if any(target.partition(".")[0] == library for target, _ in imported(tree))
    }


def test_one_module_imports_httpx_and_one_function_imports_its_room():
    """It is an extra, and slow to import."""
    assert importers(OURS, "httpx") == {"etcd.exchange"}
    from_etcd = {name for name in OURS if "etcd.exchange" in own_imports(name, OURS)}
    assert from_etcd == {"etcd.client", "etcd.watch"}


# A generation number is one counter.


def counters(modules: Trees) -> list[str]:
    """Where a generation number is made, or calculated with."""
    found = []
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.For, ast.comprehension)) and _is_generation(node.target):
                found.append(f"{name}: for generation in {ast.unparse(node.iter)}")
            elif isinstance(node, ast.BinOp):
                if _is_generation(node.left) or _is_generation(node.right):
                    found.append(f"{name}: {ast.unparse(node)}")
            elif isinstance(node, ast.AugAssign) and _is_generation(node.target):
                found.append(f"{name}: {ast.unparse(node)}")
    return sorted(found)


def _is_generation(node: ast.AST) -> bool:
    named = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return named == "generation"


def test_a_generation_number_is_one_counter():
    of_several_servers, counter = counters(OURS)
    assert counter.startswith("supervisor: ")
    assert of_several_servers == "coordination.agreement.records: self.generation + 1"


@pytest.mark.parametrize(
    "source",
    [
        "self.generation += 1",
        "generation = plan.generation + 1",
        "f(1 + generation)",
        "for generation in range(3):\n    pass",
        "[generation for generation in range(3)]",
    ],
)
def test_a_second_counter_is_told(source):
    assert len(counters(snippets(restart_policy=source))) == 1
