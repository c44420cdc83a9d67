"""Where the ranks of a whole job start, and what is made for them."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.running import Running, python

SAYS_WHERE = python("import os; print(os.getcwd())")


def where(job: Running) -> list[list[str]]:
    assert job.end() == 0, job.stderr
    return [job.said(rank) for rank in range(2)]


def test_without_a_cluster_ranks_start_where_we_were_started(supervised, tmp_path):
    assert where(supervised("--standalone", "2", *SAYS_WHERE)) == [[str(tmp_path)]] * 2
    assert not (tmp_path / "modelarts" / "workspace").exists()


@pytest.mark.parametrize(
    ("options", "place", "names"),
    [
        (("--rank-dir", "device"), "modelarts/workspace", ["device0", "device1"]),
        (("--rank-dir", "rank"), "modelarts/workspace", ["rank0", "rank1"]),
        (("--work-dir", "work"), "work", ["device0", "device1"]),
    ],
)
def test_ranks_start_apart_on_request(supervised, tmp_path, options, place, names):
    job = supervised("--standalone", "2", *options, *SAYS_WHERE)
    assert where(job) == [[str(tmp_path / place / name)] for name in names]


def test_a_command_beside_us_is_found(supervised, tmp_path):
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert where(supervised("--standalone", "2", "--", "./run")) == [["found"]] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="to give a directory to somebody else needs root")
def test_the_directory_that_we_were_started_in_may_be_anybodys(supervised, tmp_path):
    """One that we make must not be planted; this one was chosen by whoever started us."""
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o1777)
    home = open_to_all / "home"
    (home / "modelarts" / "log").mkdir(parents=True)
    os.chown(home, 4321, -1)
    logs = ("--log-dir", str(tmp_path / "log"))
    options = ("--standalone", "2", *logs, *SAYS_WHERE)
    job = supervised(*options, root=home, environ={"MA_MOUNT_PATH": ""})
    assert where(job) == [[str(home)]] * 2


def test_the_plan_says_where(supervised, tmp_path):
    with (tmp_path / "plan").open("wb") as plan:
        options = ("--standalone", "2", "--rank-dir", "rank", "--check")
        assert supervised(*options, "--", "true", stdout=plan.fileno()).end() == 0
    processes = json.loads((tmp_path / "plan").read_text())["processes"]
    work = tmp_path / "modelarts" / "workspace"
    assert [process["directory"] for process in processes] == [f"{work}/rank0", f"{work}/rank1"]


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["a run", "a plan"])
@pytest.mark.parametrize("method", ["ranktable", "torch-ddp"])
@pytest.mark.parametrize("words", [("python3", "run"), ("sh", "run"), ("./run",)])
def test_a_script_that_ranks_would_not_find_is_refused(supervised, tmp_path, check, method, words):
    """It is beside us, and ranks start elsewhere: a restart would not help."""
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    options = ("--standalone", "1", "--method", method, "--rank-dir", "device", *check)
    job = supervised(*options, "--restarts", "3", "--", *words)
    assert job.end() == 127
    (line,) = job.stderr.splitlines()
    assert str(tmp_path / "modelarts" / "workspace" / "device0") in line
    assert f"there is {script}: give --rank-dir same" in line
    assert not job.all("generation.started")


def test_torchrun_is_told_of_a_script_that_it_would_not_find(supervised, tmp_path):
    (tmp_path / "train.py").touch()
    options = ("--standalone", "1", "--method", "torchrun", "--rank-dir", "device")
    job = supervised(*options, "--", "train.py")
    assert job.end() == 127
    assert f"there is {tmp_path / 'train.py'}: give --rank-dir same" in job.stderr


# How a script may be named that is nowhere, and what is said of it.
NOWHERE = {
    "python3 -u absent.py": "and there is no absent.py",
    "python3 /nowhere/absent.py": "and there is no /nowhere/absent.py",
    "timeout 9 bash absent.sh": "and there is no absent.sh",
    "bash -x /nowhere/absent.sh": "and there is no /nowhere/absent.sh",
    "python3 /nowhere": "and there is no /nowhere",
    "python3 /usr": "where /usr is a directory without a __main__.py",
}


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["a run", "a plan"])
@pytest.mark.parametrize(
    ("method", "words"),
    [
        *(("ranktable", words) for words in NOWHERE),
        *((method, "python3 -u absent.py") for method in ("msrun", "mindspore", "torch-ddp")),
        *((method, "bash -x /nowhere/absent.sh") for method in ("once", "torchrun", "mpirun")),
    ],
)
def test_a_script_that_is_nowhere_is_refused_alike(supervised, tmp_path, words, method, check):
    """Without a restart, nothing can come late."""
    for name in ("torchrun", "msrun", "mpirun"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    alone = () if method == "once" else ("--standalone", "2")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ("--", *words.split())
    job = supervised(*check, "--method", method, *alone, *command, environ=environ)
    assert job.end() == 127
    (line,) = job.stderr.splitlines()
    assert line.endswith(f" starts in {tmp_path}, {NOWHERE[words]}")
    assert not job.all("generation.started")


def test_a_script_that_is_nowhere_is_left_to_its_interpreter_where_a_restart_may_find_it(
    supervised, tmp_path
):
    """A file system may come late."""
    python3 = tmp_path / "python3"
    python3.write_text('#!/bin/sh\nset -x; ls "$1" || { touch "$1"; exit 2; }\n')
    python3.chmod(0o755)
    options = ("--standalone", "1", "--restarts", "1", "--restart-delay", "0")
    job = supervised(*options, "--release-delay", "0", "--", str(python3), "late.py")
    assert job.end() == 0
    (told,) = job.all("diagnostic", source="COMMAND")
    assert told["message"] == f"rank 0 starts in {tmp_path}, and there is no late.py"


@pytest.mark.parametrize(
    "words",
    [
        ("bash", "in_path"),
        ("python3", "/dev/stdin"),
        ("python3", "-", "absent.py"),
        ("python3", "--check-hash-based-pycs", "never", "here.py"),
        ("env", "-C", "/", "python3", "-c", "pass", "absent.py"),
        ("sh", "-c", "true", "absent.sh"),
    ],
)
@pytest.mark.parametrize("method", ["ranktable", "once"])
def test_what_an_interpreter_would_find_elsewhere_is_started(supervised, tmp_path, words, method):
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "in_path").touch()
    (tmp_path / "here.py").touch()
    environ = {"PATH": f"{tmp_path}/programs:{os.environ['PATH']}"}
    alone = () if method == "once" else ("--standalone", "1")
    job = supervised("--method", method, *alone, "--", *words, environ=environ)
    assert job.end() == 0, job.stderr


def package(tmp_path, name: str = "mypkg") -> None:
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "__main__.py").write_text("print('ran')")


MODULE = ("--", sys.executable, "-m", "mypkg")


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["a run", "a plan"])
@pytest.mark.parametrize("words", [("-um", "mypkg"), ("-m", "mypkg.train"), ("-m", "alone")])
def test_a_module_that_ranks_would_not_find_is_refused(supervised, tmp_path, words, check):
    package(tmp_path)
    (tmp_path / "alone.py").touch()
    options = ("--standalone", "1", "--rank-dir", "device", *check)
    job = supervised(*options, "--", sys.executable, *words)
    assert job.end() == 127
    assert "device0, where there is no module " in job.stderr
    assert f"there is one in {tmp_path}: give --rank-dir same" in job.stderr
    assert not job.all("generation.started")


@pytest.mark.parametrize("way", ["where ranks start", "PYTHONPATH", "--rank-env", "same"])
def test_a_module_that_ranks_find_is_run(supervised, tmp_path, way):
    package(tmp_path)
    where = "same" if way == "same" else "device"
    options = ["--standalone", "1", "--rank-dir", where]
    environ = {}
    if way == "where ranks start":
        package(tmp_path / "modelarts" / "workspace" / "device0")
    elif way == "PYTHONPATH":
        environ = {"PYTHONPATH": f"/nowhere:{tmp_path}"}
    elif way == "--rank-env":
        options += ["--rank-env", f"PYTHONPATH={tmp_path}"]
    assert where_it_ran(supervised(*options, *MODULE, environ=environ)) == ["ran"]


def where_it_ran(job: Running) -> list[str]:
    assert job.end() == 0, job.stderr
    return job.said(0)


@pytest.mark.parametrize("name", ["json", "pip", "pytest"])
def test_a_module_that_is_also_installed_is_left_to_python(supervised, tmp_path, name):
    package(tmp_path, name)
    options = ("--standalone", "1", "--rank-dir", "device")
    job = supervised(*options, "--", sys.executable, "-m", name, "--version")
    job.end()
    assert job.all("process.started")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("sft.yaml",), "no sft.yaml"),
        (("--config=sft.yaml", "--data", "./data"), "no sft.yaml and no ./data"),
        (("data", "absent.yaml", "/etc/passwd", "--lr", "1"), ""),
    ],
)
def test_words_that_name_files_beside_us_alone_are_told(supervised, tmp_path, words, named):
    (tmp_path / "sft.yaml").touch()
    (tmp_path / "data").mkdir()
    options = ("--standalone", "2", "--rank-dir", "device")
    job = supervised(*options, *python("pass"), *words)
    assert job.end() == 0
    told = [event["msg"] for event in job.all("diagnostic", source="COMMAND")]
    assert len(told) == (1 if named else 0)
    if named:
        assert f"device0, where there is {named}, as there is where the supervisor was" in told[0]
        assert "give --rank-dir same" in told[0]
    same = supervised("--standalone", "1", *python("pass"), *words)
    assert same.end() == 0
    assert not same.all("diagnostic", source="COMMAND")
