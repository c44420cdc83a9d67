"""Whatever the interpreter is, and whatever its options, a program is the same warm as cold."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import coverage
import pytest

from tests.workers.standbys.warming import Environ, Warm, alike, cold

pytestmark = pytest.mark.thorough

SHOWS = """
import sys, warnings
def f():
    "What it does."
print(sys.flags, sys.path, sys._xoptions, sys.warnoptions, sys.argv[1:], __debug__, f.__doc__)
print([s.encoding for s in (sys.stdin, sys.stdout, sys.stderr)], sys.stdout.errors)
print(getattr(sys, "pycache_prefix", 0), sys.hash_info.width, sys.getfilesystemencoding())
try:
    import beside
    print(beside.X)
except ImportError as error:
    print(error)
with open(__file__) as file:
    print(len(file.read()))
warnings.warn("told")
warnings.warn("old", DeprecationWarning)
print("text" == b"text")
assert not sys.argv[1:]
"""
OPTIONS = (
    *("-O", "-OO", "-u", "-B", "-s", "-S", "-E", "-I", "-b", "-bb", "-q", "-R", "-Xutf8=0"),
    *("-Werror", "-Wd", "-W once", "-W ignore::UserWarning:__main__", "-Xdev", "-X tracemalloc=3"),
    *("-Xfaulthandler", "-X pycache_prefix=cache", "-Xno_debug_ranges", "-Xfrozen_modules=off"),
    *("-X int_max_str_digits=900", "-Xwarn_default_encoding", "-O -P", "-P -Werror"),
)
NEW_OPTION = "-P"
"""From Python 3.11 on."""
VARIABLES = {
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONDEVMODE": "1",
    "PYTHONHASHSEED": "7",
    "PYTHONIOENCODING": "latin-1:replace",
    "PYTHONOPTIMIZE": "2",
    "PYTHONPATH": "deep",
    "PYTHONSAFEPATH": "1",
    "PYTHONTRACEMALLOC": "3",
    "PYTHONUNBUFFERED": "1",
    "PYTHONUTF8": "0",
    "PYTHONWARNINGS": "error,ignore::UserWarning",
}
LIBRARY = f"python{sys.version_info[0]}.{sys.version_info[1]}"
LARGE = "import os, sys; print('imported by', os.environ['RANK'], __file__, flush=True)"


@pytest.fixture
def place(tmp_path):
    """A script beside a module, which another directory has, too."""
    (tmp_path / "script.py").write_text(SHOWS)
    (tmp_path / "beside.py").write_text("X = 1")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "beside.py").write_text("X = 2")
    return tmp_path


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]], ids=["script", "module"])
def test_options_of_the_interpreter_are_those_of_the_program(words, option, python, place, environ):
    options = option.split()
    if NEW_OPTION in options and python.version < (3, 11):
        pytest.skip("this Python is older")
    environ = {**environ, "PYTHONUNBUFFERED": "1"}  # as ranks have it
    if "-E" in options:  # does not read it
        options.append("-u")
    alike(words, environ, place, (*python.words, *options))


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_of_the_interpreter_are_those_of_the_script(name, python, place, environ):
    alike(["script.py"], {**environ, name: VARIABLES[name]}, place, python.words)


@pytest.mark.parametrize("option", ["", "-u"])
def test_what_is_not_flushed_is_lost_unless_nothing_is_buffered(option, python, place, environ):
    (place / "script.py").write_text("import os; print('told'); os._exit(3)")
    status, told = alike(["script.py"], environ, place, (*python.words, *option.split()))
    assert (status, told) == (3, "told\n" if option else "")


def packages_of(prefix: Path) -> Path:
    """Where packages are installed below the prefix of an interpreter; one is."""
    packages = prefix / "lib" / LIBRARY / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (packages / "large.py").write_text(LARGE)
    return packages


@pytest.fixture
def conda(tmp_path):
    """The prefix of a Python as conda lays it out: bin, lib and conda-meta, and no pyvenv.cfg.

    No conda can be had here: it is the Python of this test, in such a place.
    """
    prefix = tmp_path / "conda" / "envs" / "train"
    library = packages_of(prefix).parent
    for name in ("bin", "conda-meta"):
        (prefix / name).mkdir()
    (prefix / "conda-meta" / "history").touch()
    shutil.copy(Path(sys.executable).resolve(), prefix / "bin" / LIBRARY)
    (prefix / "bin" / "python").symlink_to(LIBRARY)
    for entry in Path(sysconfig.get_path("stdlib")).iterdir():
        if not (library / entry.name).exists():
            (library / entry.name).symlink_to(entry)
    return prefix


def test_a_python_of_conda_that_is_found_on_the_path_makes_its_own_imports(conda, place, environ):
    (place / "script.py").write_text(
        "import large, sys, sysconfig\n"
        "print(sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable, sys.orig_argv)\n"
        "print(sys.path, sysconfig.get_paths())"
    )
    environ = {**environ, "CONDA_PREFIX": str(conda), "CONDA_DEFAULT_ENV": "train"}
    environ["PATH"] = f"{conda / 'bin'}:{environ['PATH']}"
    process = Warm(["script.py"], environ, place, ["python"])
    assert process.told()["refused"] is None
    later = {**environ, "RANK": "6"}
    status, told = process.go(later, place)
    assert f"imported by 5 {conda}/lib/" in told
    assert (status, told.replace("by 5", "by 6")) == cold(["script.py"], later, place, ["python"])
    assert f"\n{conda} {conda} {conda} {conda}/bin/python ['python', 'script.py']\n" in told


MEASURED = """
import large
def f(x):
    if x:
        return 1
    return 2
class A:
    y = f(1)
if __name__ == "__main__":
    print(f(1))
"""


@pytest.fixture
def measuring(tmp_path):
    """The Python of an environment that starts coverage by a .pth file, as its manual says."""
    venv.create(tmp_path / "venv", symlinks=True)
    start = "import coverage; coverage.process_startup()"
    where = Path(coverage.__file__).parents[1]
    (packages_of(tmp_path / "venv") / "coverage.pth").write_text(f"{where}\n{start}\n")
    return tmp_path / "venv" / "bin" / "python"


@pytest.mark.parametrize("branch", [True, False])
def test_coverage_that_starts_with_each_python_measures_the_same(
    branch, measuring, place, environ, tmp_path
):
    (place / "script.py").write_text(MEASURED)
    config = place / "coveragerc"
    config.write_text(f"[run]\nbranch = {branch}\nparallel = True\nsource = .")
    environ = {**environ, "COVERAGE_PROCESS_START": str(config)}
    environ["COVERAGE_FILE"] = str(place / "cold")
    status, told = cold(["script.py"], environ, place, [str(measuring)])
    environ["COVERAGE_FILE"] = str(place / "warm")
    process = Warm(["script.py"], environ, place, [str(measuring)])
    assert process.told()["refused"] is None
    assert process.go(environ, place) == (status, told)
    assert told.endswith("\n1\n")
    assert measured(place, "warm", environ) == measured(place, "cold", environ)
    idle = Warm(["script.py"], {**environ, "COVERAGE_FILE": str(place / "idle")}, place)
    idle.told()
    assert idle.end() == (0, "")
    assert not list(place.glob("idle*"))


def measured(place: Path, name: str, environ: Environ) -> dict[str, object]:
    """What coverage reports of each file."""
    for words in ("combine", "-q"), ("json", "-q", "-o", f"{name}.json"):
        command = [sys.executable, "-m", "coverage", words[0], "--data-file", name, *words[1:]]
        subprocess.run(command, cwd=place, check=True, env={"PATH": os.environ["PATH"]})
    files = dict(json.loads((place / f"{name}.json").read_text())["files"])
    assert files["script.py"]["executed_lines"]
    return files
