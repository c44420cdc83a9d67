"""The environment that the ranks of a whole job get from the user."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.running import python


def shows(*names: str) -> list[str]:
    """The words of a rank that prints these variables, as JSON."""
    return python(f"import json, os; print(json.dumps([os.environ.get(n) for n in {names!r}]))")


def told(job, rank: int = 0) -> list[str | None]:
    assert job.end() == 0, job.stderr
    values: list[str | None] = json.loads(job.said(rank)[0])
    return values


def test_ranks_get_the_users_variables(supervised):
    job = supervised(
        *("--standalone", "2", "--rank-dir", "device"),
        *("--rank-env", "A=rank {rank} of {world_size}"),
        *("--rank-env", "B={rank_dir}"),
        *("--rank-env", "RANK_SIZE={{2}}\n"),
        *shows("A", "B", "RANK_SIZE"),
    )
    place = job.root / "modelarts" / "workspace"
    assert told(job) == ["rank 0 of 2", f"{place}/device0", "{2}\n"]
    assert told(job, 1) == ["rank 1 of 2", f"{place}/device1", "{2}\n"]


HANDED_ON = {
    "PATH": f"{os.environ['PATH']}:/nowhere: ",
    "LD_LIBRARY_PATH": "/nowhere/lib:",
    "PYTHONPATH": "/nowhere/python",
    "RESUME_MODE_ENABLE": "1",
    "HCCL_ASYNC_ERROR_HANDLING": "1",
    "EMPTY": "",
}


@pytest.mark.parametrize("recovery", [{}, {"ELASTIC_PROCESS_RECOVER_ENABLE": "1"}])
@pytest.mark.parametrize("method", ["ranktable", "mindspore", "torch-ddp", "tensorflow"])
def test_what_is_the_users_is_handed_on_untouched(supervised, method, recovery):
    options = ("--standalone", "1", "--method", method, "--drain", "0")
    job = supervised(*options, *shows(*HANDED_ON), environ=HANDED_ON | recovery)
    assert told(job) == list(HANDED_ON.values())


def test_a_generation_is_named(supervised):
    fails_once = "import os; print(os.environ['X']); os._exit(os.environ['X'] == '0')"
    options = ("--restarts", "1", "--restart-delay", "0", "--rank-env", "X={generation}")
    job = supervised("--standalone", "1", *options, *python(fails_once))
    assert job.end() == 0
    assert [job.said(0, generation) for generation in (0, 1)] == [["0"], ["1"]]


def test_the_log_holds_no_value(supervised):
    job = supervised("--standalone", "1", "--rank-env", "TOKEN=s3cret", "--", "true")
    assert job.end() == 0
    assert "s3cret" not in json.dumps(job.events)
    assert job.events[0]["settings"][-1] == "rank-env=TOKEN (command line)"


def test_the_plan_shows_what_ranks_get(supervised, tmp_path):
    with (tmp_path / "plan").open("wb") as plan:
        options = ("--check", "--standalone", "2", "--rank-env", "DEVICE_INDEX={rank}")
        assert supervised(*options, "--", "true", stdout=plan.fileno()).end() == 0
    processes = json.loads((tmp_path / "plan").read_text())["processes"]
    assert [p["environment"]["DEVICE_INDEX"] for p in processes] == ["0", "1"]


def test_a_rank_is_refused_where_a_launcher_starts_it(supervised):
    words = ("--standalone", "1", "--method", "torchrun", "--rank-env", "X={rank}", "--", "x.py")
    job = supervised(*words)
    assert job.end() == 64
    assert job.stderr.count("{rank} cannot be used with --method torchrun: it starts one") == 1


def broken_library(tmp_path) -> str:
    """A directory with a file where setpriv has a library, and Python has none."""
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "libcap-ng.so.0").write_text("no library")
    return str(tmp_path / "libraries")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing wraps a rank")
@pytest.mark.parametrize("way", ["rank-env", "env-from"])
def test_libraries_that_the_user_names_are_those_of_the_rank_alone(supervised, tmp_path, way):
    """What starts the rank keeps its own: it could not start with these (127)."""
    libraries = broken_library(tmp_path)
    (tmp_path / "set_env.sh").write_text(f"export LD_LIBRARY_PATH={libraries}\n")
    words = {
        "rank-env": ("--rank-env", f"LD_LIBRARY_PATH={libraries}"),
        "env-from": ("--env-from", "set_env.sh"),
    }[way]
    job = supervised("--standalone", "2", *words, *shows("LD_LIBRARY_PATH", "RANK"))
    assert told(job) == [libraries, "0"]
    assert told(job, 1) == [libraries, "1"]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing wraps a rank")
def test_libraries_that_a_file_unsets_are_unset_in_the_rank(supervised, tmp_path):
    (tmp_path / "set_env.sh").write_text("unset LD_LIBRARY_PATH\n")
    words = ("--standalone", "1", "--env-from", "set_env.sh")
    job = supervised(*words, *shows("LD_LIBRARY_PATH"), environ={"LD_LIBRARY_PATH": "/ours"})
    assert told(job) == [None]
