"""--check says of a module or directory that Python cannot run that it cannot, and of no other."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("pkg/__init__.py", "pkg/train.py", "pkg/__main__.py", "empty/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "train.py").write_text("raise SystemExit('imported')")
    (tmp_path / "space" / "inner").mkdir(parents=True)
    (tmp_path / "space" / "inner" / "go.py").touch()
    (tmp_path / "moves").mkdir()
    (tmp_path / "moves" / "__init__.py").write_text("__path__.append('/elsewhere')")
    (tmp_path / "hooked").mkdir()
    (tmp_path / "hooked" / "__init__.py").write_text("from . import hooks")
    (tmp_path / "hooked" / "hooks.py").write_text("import sys; sys.modules['hooked.x'] = sys")
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as file:
        file.writestr("zipped/__init__.py", "")
        file.writestr("zipped/go.py", "")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("-m nope", "finds no module nope (python -m nope)"),
        ("-um nope.train", "finds no module nope (python -m nope.train)"),
        ("-m pkg.nope", "finds no module pkg.nope (python -m pkg.nope)"),
        ("-W ignore -m space.nope", "finds no module space.nope "),
        ("-m empty", "finds no module empty.__main__ (python -m empty)"),
        ("-m train.py", "finds no module train.py (python -m train.py)"),
        ("-I -m pkg", "finds no module pkg (python -m pkg)"),
        (".", "where . is a directory without a __main__.py"),
        ("space", "where space is a directory without a __main__.py"),
        ("train.py/", "and there is no train.py/"),
    ],
)
def test_what_python_cannot_run_is_refused(supervised, root, words, named):
    command = (sys.executable, *words.split())
    job = supervised("--check", "--standalone", "2", "--", *command, root=root)
    assert job.end() == 127
    assert named in job.stderr


@pytest.mark.parametrize(
    "words",
    [
        "-m pkg",
        "-m pkg.train",
        "-um train",
        "-m space.inner.go",
        "-m moves.x",
        "-m hooked.x",
        "-m zipped.go",
        "-m elsewhere",
        "-m json.tool",
        "-m os",
        "-m sys",
        "-m pytest",
        "-m this",
        "-c nope",
        "pkg",
        "lib.zip",
        "-h -m nope.py",
    ],
)
def test_what_python_may_run_is_planned(supervised, root, words):
    (root / "other").mkdir()
    (root / "other" / "elsewhere.py").touch()
    environ = {"PYTHONPATH": f"{root}/lib.zip:other"}
    check(supervised, root, (sys.executable, *words.split()), environ)


def check(supervised, root: Path, command: tuple[str, ...], environ: dict[str, str]) -> None:
    """The plan is no event, so it goes to a file."""
    words = ("--check", "--standalone", "1", "--", *command)
    with (root / "plan").open("wb") as plan:
        job = supervised(*words, root=root, environ=environ, stdout=plan.fileno())
        assert job.end() == 0, job.stderr


def test_a_module_of_an_import_hook_is_planned(supervised, root):
    """As editable installs have it: a finder that a .pth file or sitecustomize brings."""
    (root / "site").mkdir()
    (root / "site" / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        "class Finder:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'edited':\n"
        f"            return importlib.util.spec_from_file_location(name, '{root}/train.py')\n"
        "sys.meta_path.append(Finder)\n"
    )
    check(supervised, root, (sys.executable, "-m", "edited"), {"PYTHONPATH": f"{root}/site"})


def test_a_python_that_gives_no_answer_is_believed(supervised, root):
    fake = root / "python3"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    path = f"{root}:{os.environ['PATH']}"
    check(supervised, root, ("python3", "-m", "nope"), {"PATH": path})
