"""Completion and man pages: shells complete with them, groff reads them, a wheel has them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from ascend_supervisor.ctl.commands import COMMANDS
from ascend_supervisor.settings.options import OPTIONS
from tests.terminals import Terminal

ROOT = Path(__file__).parents[1]
PAGES = "man/man1"
SHELLS = {
    "bash": (
        ("bash", "--norc", "--noprofile", "-i"),
        "bind 'set enable-bracketed-paste off'; source <(cat {made}/bash-completion/*/*)",
    ),
    "zsh": (
        ("zsh", "-f", "-i"),
        "fpath=({made}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D",
    ),
}
CLEAR_LINE = "\x15"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The files, as below /usr/share."""
    share: Path = tmp_path_factory.mktemp("share")
    subprocess.run([sys.executable, str(ROOT / "scripts" / "shell_files.py"), share], check=True)
    return share


@pytest.fixture(params=SHELLS, scope="module")
def shell(request, made, tmp_path_factory) -> Iterator[Terminal]:
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
    terminal.press(f"{setting.format(made=shlex.quote(str(made)))}; clear; echo re''ady\n".encode())
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
        ("ascend-supervisor --rank-table=ta", "ascend-supervisor --rank-table=table.json"),
        ("ascend-supervisor --metrics-address :9400 --conf", ":9400 --config"),
        ("ascend-supervisor --metrics-address=[::1]:9400 --conf", ":9400 --config"),
        ("ascend-supervisor --rank-env A=b --conf", "A=b --config"),
        ("ascend-supervisor --standalone 4 --conf", "ascend-supervisor --standalone 4 --config"),
        ("ascend-supervisor --standalone --conf", "ascend-supervisor --standalone --config"),
        ("ascend-supervisor --standalone 4 python tr", "--standalone 4 python train.py"),
        ("ascend-supervisor --standalone python tr", "--standalone python train.py"),
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
def test_groff_reads_the_pages_without_a_complaint(made, name):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tascii", "-P-cbou", str(made / PAGES / name)],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    flags = [option.flag for option in OPTIONS if option.flag != "--help"]
    known = COMMANDS if "ctl" in name else flags
    assert [word for word in known if f" {word}" not in done.stdout] == []


def test_a_wheel_has_all_of_them(made, tmp_path):
    """Installed below the prefix of an environment, where shells and man look."""
    words = ("build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT))
    subprocess.run([sys.executable, "-m", *words], check=True, stdout=subprocess.DEVNULL)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = {name.partition(".data/data/share/")[2]: name for name in wheel.namelist()}
        for path in filter(Path.is_file, made.rglob("*")):
            assert wheel.read(names[str(path.relative_to(made))]) == path.read_bytes()
