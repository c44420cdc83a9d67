"""What a shell file changes in the environment, as bash itself says."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.kernel import become_subreaper
from ascend_supervisor.processes.ownership import Mark, Ownership
from ascend_supervisor.processes.shell_file import Changes, ShellFileFailed, changes, sourced
from tests.running import DEADLINE_SECONDS

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/home/me", "ODD": "a\nb", "a.b": "1"}
ENDED_BASH = "it ended bash, or stopped it from reading on (exit, exec PROGRAM or set -n), so its"
Source = Callable[..., Awaitable[Changes]]


@pytest.fixture
def notes() -> list[str]:
    """What ``source`` said of files that succeeded."""
    return []


@pytest.fixture
async def source(tmp_path: Path, notes: list[str]) -> AsyncIterator[Source]:
    """``await source(text)`` sources a file with this text, as a supervisor does.

    It adopts orphans, so that it sees the end of each: one that dies has no environment any more.
    """
    become_subreaper()
    children = Children()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, children.reap)
    ownership = Ownership.from_now_on(Mark.ours("SHELL_FILE_TEST", str(tmp_path)))

    async def run(
        text: str | None,
        environ: Mapping[str, str] = ENVIRON,
        name: str = "set_env.sh",
        seconds: float = DEADLINE_SECONDS,
    ) -> Changes:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        if text is not None:
            file.write_text(text)
        marked = {**environ, ownership.mark.variable: ownership.mark.value}
        return await sourced(file, marked, children, ownership, notes.append, seconds)

    yield run
    loop.remove_signal_handler(signal.SIGCHLD)


async def test_what_is_set_changed_and_unset_is_told(source):
    text = "export NEW=1 PATH=/cann/bin:$PATH\nunset HOME\nUNEXPORTED=1\nexport ODD\n"
    assert await source(text) == {
        "NEW": "1",
        "PATH": f"/cann/bin:{ENVIRON['PATH']}",
        "HOME": None,
    }


async def test_a_file_that_changes_nothing_gives_nothing(source):
    """Neither what bash sets by itself nor an odd name of a variable is a change."""
    assert await source("cd /\n") == {}


async def test_values_are_kept_byte_for_byte(source):
    text = "export A=$'one\\ntwo\\n' B='x = y \"z\" ' C=$'\\xff' D=\n"
    assert await source(text) == {"A": "one\ntwo\n", "B": 'x = y "z" ', "C": "\udcff", "D": ""}


async def test_exported_functions_are_no_variables(source):
    assert await source("f() { echo '\nA=1'; }\nexport -f f\nexport B=2\n") == {"B": "2"}


async def test_a_file_finds_itself_and_gets_no_arguments(source, tmp_path):
    text = 'export HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) COUNT=$#\n'
    name = "it's a $(place)/set env.sh"
    assert await source(text, name=name) == {"HERE": f"{tmp_path}/it's a $(place)", "COUNT": "0"}


async def test_a_file_may_redefine_what_it_likes(source):
    text = "set -aeu\nenv() { echo no; }\nalias exec=false\nPATH=/nowhere\n"
    assert await source(text) == {"PATH": "/nowhere"}


async def test_what_bash_reads_by_itself_is_not_read(source, tmp_path):
    (tmp_path / "other").write_text("export OTHER=1")
    assert await source("export A=1", {**ENVIRON, "BASH_ENV": str(tmp_path / "other")}) == {
        "A": "1"
    }


async def test_much_output_and_many_variables_are_no_problem(source):
    text = "printf '%0300000d' 1\nfor n in {1..300}; do printf -v V$n %01000d 1; export V$n; done\n"
    assert len(await source(text)) == 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "echo one\necho two >&2\nreturn 3\n",
            "it ended with status 3; its last output: one | two",
        ),
        ("set -e\nfalse\necho on\n", "it ended with status 1; it has written nothing"),
        ("[ -d /none ] && export A=1\n", "; if only its last command gave 1, such as [ -d DIR ] "),
        ("exit 4\n", "it ended with status 4; it has written nothing"),
        ("exit 0\n", ENDED_BASH),
        ("exec true\n", ENDED_BASH),
        ("set -n\n", ENDED_BASH),
        ("if true; then exec ls >/dev/null; fi\n", ENDED_BASH),
        ("kill -KILL $$\n", "bash was killed by SIGKILL"),
        ("if\n", "syntax error"),
        ("seq 100\nfalse\n", "; its last output: 98 | 99 | 100"),
        (None, "No such file or directory"),
    ],
)
async def test_a_failure_is_told_with_the_end_of_its_output(source, text, expected):
    with pytest.raises(ShellFileFailed) as failed:
        await source(text)
    assert expected in str(failed.value)


@pytest.mark.parametrize(
    "text",
    [
        "set -x; export AWS_SECRET_ACCESS_KEY=abcd1234secret; set +x; false\n",
        "echo PASSWORD='abcd1234secret'; false\n",
        "printf 'TOKEN=%020000dabcd1234secret' 1; false\n",
        "printf '%0150dTOKEN=abcd1234secret' 1; false\n",
    ],
    ids=["set -x", "quoted", "longer than what is kept", "longer than what is told"],
)
async def test_a_secret_in_its_output_is_not_told(source, text):
    with pytest.raises(ShellFileFailed, match="its last output: ") as failed:
        await source(text)
    assert "abcd" not in str(failed.value)


async def test_the_output_of_a_file_that_succeeds_is_told(source, notes):
    assert await source("echo TOKEN=secret\necho no driver >&2\nexport A=1\n") == {"A": "1"}
    assert notes == ["it succeeded, and its last output is: TOKEN=*** | no driver"]


async def test_nothing_is_told_of_a_silent_file(source, notes):
    assert await source("x=$(echo output)\necho\n") == {}
    assert notes == []


async def test_a_process_that_it_leaves_is_killed_and_told(source, notes, tmp_path):
    """An agent like that of ssh: its variables are of no use then."""
    agent = (
        f"echo $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; while sleep 0.05; do :; done"
    )
    wait = f"until [ -e {tmp_path}/pid ]; do sleep 0.05; done"
    assert list(await source(f"setsid sh -c '{agent}' &\n{wait}\nexport AGENT=$!\n")) == ["AGENT"]
    (note,) = notes
    assert note.startswith(
        "it left processes, which were killed; do not use what it says of them: "
    )
    assert "sh -c echo" in note
    assert_gone(int((tmp_path / "pid").read_text()))


async def test_a_directory_is_a_failure(source, tmp_path):
    (tmp_path / "set_env.sh").mkdir()
    with pytest.raises(ShellFileFailed, match="directory"):
        await source(None)


async def test_without_bash_it_is_a_failure(source):
    with pytest.raises(ShellFileFailed, match="not both are in PATH"):
        await source("", {"PATH": "/nowhere"})


async def test_a_file_that_takes_too_long_is_killed_with_what_it_started(source, tmp_path):
    text = f"sleep 600 &\necho $! >{tmp_path}/pid\necho waiting\nsleep 601\n"
    with pytest.raises(ShellFileFailed) as failed:
        await source(text, seconds=1.0)
    assert str(failed.value).startswith("it did not end within 1 s, and was killed; ")
    assert str(failed.value).endswith("waiting")
    assert_gone(int((tmp_path / "pid").read_text()))


async def test_nothing_is_left_where_the_wait_is_cancelled(source, tmp_path):
    async def until_it_runs() -> None:
        while not (tmp_path / "pid").exists():
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()

    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_it_runs)
            text = f"echo $$ >{tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pid\nsleep 600\n"
            await source(text)
    assert_gone(int((tmp_path / "pid").read_text()))


def assert_gone(pid: int) -> None:
    """Dead; an orphan whose new parent has not waited for it yet is dead, too."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return
    assert state in "ZX"


def test_what_bash_sets_by_itself_is_no_change():
    listed = b"A=1\0SHLVL=1\0_=/usr/bin/env\0PWD=/\0BASH_FUNC_f%%=() { :\n}\0B==\0"
    assert changes({"A": "1", "OLDPWD": "/x", "C": "3"}, listed) == {"B": "=", "C": None}
