"""What the programs import, where the directories of ranks hold modules of the same names."""

from __future__ import annotations

import ast
import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

from ascend_supervisor import imports
from ascend_supervisor.imports import own_directories
from tests.test_events_schema import complaints

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
PYTHONS_OWN = frozenset(
    {"collections", "contextlib", "functools", "importlib", "keyword"}
    | {"operator", "reprlib", "runpy", "types", "warnings"}
)
"""What ``python -m`` itself imports from the current directory, before any program of ours runs.

Read off CPython 3.10 to 3.13 by trying each; docs/security.md says so.
"""
PACKAGES = (
    *("anyio", "httpx", "msgspec", "orjson", "regex", "rich", "structlog", "tomli", "watchfiles"),
)
OLD = sorted(Path(os.environ.get("HOME", "/"), ".pyenv/versions").glob("3.[6-9].*/bin/python"))
BAD = "raise SystemError('a module of a rank')"
JOB = ("--standalone", "1", "--log-dir", "logs", "--")
SHOW = "import queue, sys; print(queue.__file__)"


def directory_of_a_rank(at: Path, without: frozenset[str] = frozenset()) -> Path:
    """With a module that cannot be imported, of each name that Python or we have."""
    at.mkdir()
    for name in {*sys.stdlib_module_names, *PACKAGES} - without - {*sys.builtin_module_names}:
        (at / f"{name}.py").write_text(BAD)
    return at


def ended(
    words: Sequence[str | Path], cwd: Path, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def last_event(stdout: str) -> dict[str, object]:
    event: dict[str, object] = json.loads(stdout.splitlines()[-1])
    assert complaints(event) == []
    return event


PROGRAMS = {
    "python -m ascend_supervisor": (sys.executable, "-m", "ascend_supervisor", "--version"),
    "ascend-supervisor": (BIN / "ascend-supervisor", "--version"),
    "python -m ascend_supervisor.ctl": (sys.executable, "-m", "ascend_supervisor.ctl", "--version"),
    "ascend-supervisorctl": (BIN / "ascend-supervisorctl", "--version"),
}


@pytest.mark.parametrize("words", PROGRAMS.values(), ids=PROGRAMS)
def test_modules_in_the_current_directory_are_not_ours(words, tmp_path):
    taken = PYTHONS_OWN if "-m" in words else frozenset()
    run = ended(words, directory_of_a_rank(tmp_path / "code", taken))
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("words", PROGRAMS.values(), ids=PROGRAMS)
def test_modules_in_pythonpath_are_not_ours(words, tmp_path):
    # The interpreter itself imports more from there, before anything of ours.
    bare = ended((sys.executable, "-c", "import sys; print(*sys.modules)"), tmp_path).stdout.split()
    taken = PYTHONS_OWN | {"sitecustomize", "usercustomize"} | {one.split(".")[0] for one in bare}
    code = directory_of_a_rank(tmp_path / "code", taken)
    run = ended(words, tmp_path, PYTHONPATH=str(code))
    assert (run.returncode, run.stderr) == (0, "")


def test_every_module_can_be_imported():
    package = ROOT / "ascend_supervisor"
    files = [one.relative_to(ROOT).with_suffix("") for one in package.rglob("*.py")]
    names = [".".join(one.parts).removesuffix(".__init__") for one in files]
    source = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    run = ended((sys.executable, "-W", "error", "-c", source), ROOT)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_whole_job_imports_nothing_of_its_ranks_and_the_ranks_keep_their_own(tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    for name in ("queue", "random", "signal", "anyio"):
        (code / f"{name}.py").write_text("")
    job = (sys.executable, "-m", "ascend_supervisor", *JOB, sys.executable, "-c", SHOW)
    run = ended(job, code, PYTHONPATH=str(code), MA_MOUNT_PATH=str(tmp_path))
    assert run.returncode == 0, run.stderr
    logs = [one for one in (code / "logs").rglob("*") if one.is_file()]
    assert any(str(code / "queue.py") in one.read_text() for one in logs)


def test_packages_that_pythonpath_names_are_used_where_we_are_among_them(tmp_path):
    """As after ``pip install --target DIRECTORY``."""
    home = tmp_path / "packages"
    home.mkdir()
    (home / "ascend_supervisor").symlink_to(ROOT / "ascend_supervisor")
    packages = Path(str(distribution("anyio").locate_file("")))
    for package in packages.iterdir():
        if not package.name.startswith("_"):
            (home / package.name).symlink_to(package)
    (home / "queue.py").write_text(BAD)
    bare = (sys.executable, "-S", "-m", "ascend_supervisor", "--version")
    run = ended(bare, tmp_path, PYTHONPATH=str(home))
    assert (run.returncode, run.stderr) == (0, "")


def test_a_package_that_is_missing_is_told_in_a_sentence_and_an_event(tmp_path):
    # With -S no packages of this interpreter are found, as where they were never installed.
    words = (sys.executable, "-S", "-m", "ascend_supervisor", "--standalone", "1", "--", "true")
    run = ended(words, tmp_path, PYTHONPATH=str(ROOT), JOB_ID="job-7")
    event = last_event(run.stdout)
    assert run.returncode == 64
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("ascend_supervisor: cannot be imported: No module named 'anyio'; ")
    assert sys.executable in run.stderr
    assert event["reason"] == run.stderr.removeprefix("ascend_supervisor: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (("--termination-log", "log", "--", "true"), {}),
        (("--termination-log=log", "true"), {}),
        (("--", "true"), {"ASCEND_SUPERVISOR_TERMINATION_LOG": "log"}),
    ],
)
@pytest.mark.parametrize("is_there", [True, False], ids=["empty", "missing"])
def test_kubelet_reads_which_package_is_missing(tmp_path, words, environ, is_there):
    log = tmp_path / "log"
    if is_there:
        log.touch()
    program = (sys.executable, "-S", "-m", "ascend_supervisor", *words)
    run = ended(program, tmp_path, PYTHONPATH=str(ROOT), **environ)
    assert run.returncode == 64
    assert log.read_text() == f"{last_event(run.stdout)['root_cause']}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [(("--check", "--", "true"), ""), (("--version",), ""), (("--", "true"), "the first failure")],
    ids=["a plan", "a question", "a second start"],
)
def test_without_our_packages_it_is_left_to_whom_it_belongs(tmp_path, words, told):
    log = tmp_path / "log"
    log.write_text(told)
    program = (sys.executable, "-S", "-m", "ascend_supervisor", "--termination-log", "log", *words)
    assert ended(program, tmp_path, PYTHONPATH=str(ROOT)).returncode == 64
    assert log.read_text() == told


def test_without_our_packages_it_replaces_an_earlier_refusal(tmp_path):
    log = tmp_path / "log"
    log.write_text("the first failure")
    with log.open("r+b") as file:
        imports.mark_refusal(file.fileno())
        if not imports.tells_refusal(file.fileno()):
            pytest.skip("this file system has no extended attributes")
    program = (sys.executable, "-S", "-m", "ascend_supervisor", "--termination-log", "log", "true")
    run = ended(program, tmp_path, PYTHONPATH=str(ROOT))
    assert log.read_text() == f"{last_event(run.stdout)['root_cause']}\n"


@pytest.mark.parametrize("kind", ["directory", "link", "device", "nowhere", "held"])
def test_where_it_cannot_be_written_the_sentence_is_told_all_the_same(tmp_path, kind):
    log = tmp_path / "log"
    with (tmp_path / "other").open("w") as other:
        if kind == "directory":
            log.mkdir()
        elif kind == "link":
            log.symlink_to(tmp_path / "other")
        elif kind == "held":
            log.hardlink_to(tmp_path / "other")
            fcntl.flock(other, fcntl.LOCK_EX)
        place = {"device": "/dev/full", "nowhere": str(log / "below")}.get(kind, str(log))
        words = (sys.executable, "-S", "-m", "ascend_supervisor", "--termination-log", place)
        run = ended((*words, "--", "true"), tmp_path, PYTHONPATH=str(ROOT))
    assert (run.returncode, len(run.stderr.splitlines())) == (64, 1)
    assert (tmp_path / "other").read_text() == ""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libx.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    ],
    ids=repr,
)
def test_where_the_machine_has_no_room_for_an_import_nothing_is_to_be_installed(error, capfd):
    assert imports.refuse(error, imports.SUPERVISOR) == 69
    out, err = capfd.readouterr()
    (line,) = err.splitlines()
    assert line.startswith("ascend_supervisor: the machine has no room for this program: ")
    assert "raise ulimit -v, ulimit -d and ulimit -n" in line
    event = json.loads(out)
    assert (event["exit_code"], event["root_cause"]) == (69, line.partition(": ")[2])


def test_ctl_tells_it_too(tmp_path):
    words = (sys.executable, "-S", "-m", "ascend_supervisor.ctl", "status")
    run = ended(words, tmp_path, PYTHONPATH=str(ROOT))
    assert (run.returncode, run.stdout) == (64, "")
    assert run.stderr.startswith("ascend-supervisorctl: cannot be imported: No module named ")
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.skipif(not OLD, reason="no Python older than 3.10 is here")
@pytest.mark.parametrize("module", ["ascend_supervisor", "ascend_supervisor.ctl"])
@pytest.mark.parametrize("old", OLD, ids=[one.parents[1].name for one in OLD])
def test_an_older_python_is_refused(old, module, tmp_path):
    run = ended((old, "-m", module, "--version"), tmp_path, PYTHONPATH=str(ROOT))
    assert run.returncode == 64
    assert f"expected Python 3.10 or later, found {old.parents[1].name[:3]} (" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_nothing_is_imported_before_it_is_settled_from_where():
    tree = ast.parse((ROOT / "ascend_supervisor" / "imports.py").read_text())
    first = [ast.unparse(one) for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    assert first == ["import os", "import sys"]
    for program in ("__main__.py", "ctl/__main__.py"):
        lines = ast.parse((ROOT / "ascend_supervisor" / program).read_text()).body
        imports = [one for one in lines if isinstance(one, ast.Import | ast.ImportFrom)]
        names = {one.module if isinstance(one, ast.ImportFrom) else "sys" for one in imports}
        assert names <= {"ascend_supervisor.imports", "sys"}


PYTHON = ("/py311.zip", "/py311", "/py311/lib-dynload")
PACKAGES_OF_IT = ("/py311/site-packages",)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (("/cwd", "/mine", *PYTHON, *PACKAGES_OF_IT), (*PYTHON, *PACKAGES_OF_IT)),
        ((*PYTHON, *PACKAGES_OF_IT, "/clone"), (*PYTHON, *PACKAGES_OF_IT, "/clone")),
        (("/home", *PYTHON, *PACKAGES_OF_IT), (*PYTHON, "/home", *PACKAGES_OF_IT)),
        (("/cwd", *PACKAGES_OF_IT, *PYTHON), (*PYTHON, *PACKAGES_OF_IT)),
        (
            ("/py311", "/mine", "/py311.zip", "/py311/lib-dynload"),
            PYTHON[1:2] + PYTHON[:1] + PYTHON[2:],
        ),
    ],
    ids=["of ranks", "none", "home", "packages in PYTHONPATH", "the library in PYTHONPATH"],
)
def test_of_a_path(path, kept):
    assert own_directories([*path], {*PYTHON}, {"/home", *PACKAGES_OF_IT}) == [*kept]
