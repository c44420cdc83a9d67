"""Completion and man pages: they are those that the tables of options make, and shells use them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_supervisor.ctl.commands import COMMANDS
from ascend_supervisor.settings.options import OPTIONS
from tests.terminals import Terminal

ROOT = Path(__file__).parents[1]
COMPLETION = ROOT / "conf" / "completion"
FILES = shlex.quote(str(COMPLETION))
PAGES = ROOT / "docs" / "man"
SHELLS = {
    "bash": (
        ("bash", "--norc", "--noprofile", "-i"),
        f"bind 'set enable-bracketed-paste off'; for f in {FILES}/*.bash; do source \"$f\"; done",
    ),
    "zsh": (
        ("zsh", "-f", "-i"),
        f"fpath=({FILES} $fpath); autoload -U compinit; compinit -u -D",
    ),
}
CLEAR_LINE = "\x15"


def test_the_files_are_those_that_the_tables_make(tmp_path):
    subprocess.run([sys.executable, str(ROOT / "scripts" / "shell-files"), tmp_path], check=True)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 5
    differing = [
        name for name in made if (tmp_path / name).read_text() != (ROOT / name).read_text()
    ]
    assert differing == [], "scripts/shell-files makes them anew"


@pytest.fixture(params=SHELLS, scope="module")
def shell(request, tmp_path_factory) -> Iterator[Terminal]:
    """A shell that has our completion, in a directory with some files."""
    tmp_path = tmp_path_factory.mktemp("shell")
    words, setting = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    for name in ("train.py", "table.json"):
        (tmp_path / name).touch()
    terminal = Terminal(
        *("env", "-C", str(tmp_path), *words),
        columns=120,
        lines=10,
        environ={"PATH": os.environ["PATH"], "TERM": "xterm", "PS1": "$ ", "HOME": str(tmp_path)},
    )
    terminal.press(f"{setting}; clear; echo re''ady\n".encode())
    terminal.until(lambda rows: "ready" in rows)
    yield terminal
    terminal.close()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ascend-supervisor --console-r", "ascend-supervisor --console-ranks"),
        ("ascend-supervisor --console j", "ascend-supervisor --console json"),
        ("ascend-supervisor --console=j", "ascend-supervisor --console=json"),
        ("ascend-supervisor --rank-table ta", "ascend-supervisor --rank-table table.json"),
        (
            "ascend-supervisor --restarts 3 --check -- python tr",
            "ascend-supervisor --restarts 3 --check -- python train.py",
        ),
        ("ascend-supervisorctl hea", "ascend-supervisorctl health"),
        (
            "ascend-supervisorctl --log-dir x status --w",
            "ascend-supervisorctl --log-dir x status --watch",
        ),
        ("ascend-supervisorctl logs --color n", "ascend-supervisorctl logs --color never"),
        ("ascend-supervisorctl check-table ta", "ascend-supervisorctl check-table table.json"),
    ],
)
def test_a_shell_completes(shell, typed, completed):
    shell.press(f"{CLEAR_LINE}{typed}\t".encode())
    shell.until(lambda rows: any(completed in row for row in rows))


@pytest.mark.parametrize("name", ["ascend-supervisor.1", "ascend-supervisorctl.1"])
def test_groff_reads_the_pages_without_a_complaint(name):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-cbou", str(PAGES / name)],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    known = COMMANDS if "ctl" in name else [option.flag for option in OPTIONS]
    assert [word for word in known if f" {word}" not in done.stdout and word != "version"] == []


def test_the_wheel_has_all_of_them():
    """Hatchling puts them below the prefix of the environment, where shells and man look."""
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    shared = {source: place for source, _, place in (line.partition(" = ") for line in lines)}
    for path in COMPLETION.iterdir():
        assert f'"{path.relative_to(ROOT)}"' in shared
    assert shared['"docs/man"'] == '"share/man/man1"'
