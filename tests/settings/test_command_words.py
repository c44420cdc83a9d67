"""A launcher as COMMAND is refused where the method would start it as a rank."""

from __future__ import annotations

import re

import pytest

from ascend_supervisor.settings.command_words import command_fault, nested_launcher, script_of
from ascend_supervisor.settings.options import METHODS
from ascend_supervisor.settings.values import Method

TORCHRUN = "torchrun --nproc_per_node=8 train.py"


@pytest.mark.parametrize(
    ("command", "name", "launcher"),
    [
        (TORCHRUN, "torchrun", "torchrun"),
        ("/opt/x/bin/torchrun train.py", "torchrun", "torchrun"),
        ("msrun --worker_num=8 train.py", "msrun", "msrun"),
        ("mpirun -np 8 python train.py", "mpirun", "mpirun"),
        ("mpiexec -n 8 python train.py", "mpiexec", "mpirun"),
        ("python -m torch.distributed.run t.py", "python -m torch.distributed.run", "torchrun"),
        ("python -m torch.distributed.launch t", "python -m torch.distributed.launch", "torchrun"),
        ("python3.11 -u -m torch.distributed.run", "python -m torch.distributed.run", "torchrun"),
        ("/a/python3 -um torch.distributed.run", "python -m torch.distributed.run", "torchrun"),
        ("python -mtorch.distributed.run t.py", "python -m torch.distributed.run", "torchrun"),
        ("python -W ignore -X dev -Wdefault -m torch.distributed.run t.py", None, "torchrun"),
        ("python -m mindspore.parallel.cluster.run", None, "msrun"),
        ("python -u /opt/x/bin/torchrun train.py", "torchrun", "torchrun"),
        ("env torchrun train.py", "torchrun", "torchrun"),
        ("/usr/bin/env -i -u B A=1 torchrun train.py", "torchrun", "torchrun"),
        ("nohup nice -n 5 stdbuf -oL -e 0 msrun train.py", "msrun", "msrun"),
        (
            "nice -5 python -m torch.distributed.run t",
            "python -m torch.distributed.run",
            "torchrun",
        ),
    ],
)
def test_a_launcher_is_no_rank(command, name, launcher):
    for method in ("ranktable", "mindspore", "torch-ddp", "tensorflow", launcher):
        sentence = nested_launcher(method, command.split())
        assert sentence is not None
        assert sentence.startswith(f"COMMAND: --method {method} expected the program of a rank")
        assert f"--method {launcher} -- train.py ..., " in sentence
        if name is not None:
            assert f"found {name}, which starts ranks itself" in sentence
            assert sentence.endswith(f"or start it as it is: --method once -- {name} ...")
    assert nested_launcher("once", command.split()) is None


@pytest.mark.parametrize(
    "command",
    [
        "python train.py",
        "python",
        "python train.py torchrun",
        "python -c torchrun",
        "python -W torchrun train.py",
        "python -m train -m torch.distributed.run",
        "python torch.distributed.run",
        "torchrun.py",
        "mytorchrun train.py",
        "bash -c torchrun",
        "env A=1 python train.py torchrun",
        "env -u torchrun train.py",
        "env",
        "nice -n",
        "train.py",
    ],
)
def test_anything_else_may_be_a_rank(command: str):
    assert {nested_launcher(method, command.split()) for method in METHODS} == {None}


@pytest.mark.parametrize(
    ("method", "refused"),
    [("torchrun", True), ("msrun", True), ("mpirun", False), ("once", False)],
)
def test_one_launcher_within_another(method: Method, refused: bool):
    """mpirun may start one torchrun for each server (MY_MPI_SLOTS=1)."""
    assert (nested_launcher(method, TORCHRUN.split()) is not None) == refused


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("export A=1", "export is a word of the shell, .*; write --rank-env NAME=VALUE -- COMMAND"),
        ("set -e", "set is a word of the shell, .*; write -- bash -c 'set OPTIONS && COMMAND'"),
        ("ulimit -n 9", "ulimit is a word .*; write -- bash -c 'ulimit OPTIONS && exec COMMAND'"),
        ("exec python t.py", "exec is a word .*; leave exec out: the supervisor starts the .*"),
        ("-- python t.py", "COMMAND: expected a program, found a second --; write -- once, .*"),
        ("--restarts 3 -- python", "COMMAND: .* found '--restarts', an option; write -- once, .*"),
        ("A=s3cret train.py", "COMMAND: expected a program, found A=..., .*; write --rank-env .*"),
    ],
)
def test_words_of_the_shell_are_refused(command: str, expected: str):
    for method in METHODS:
        fault = command_fault(method, command.split())
        assert fault is not None, method
        assert re.fullmatch(expected, fault), method


@pytest.mark.parametrize("command", ["./A=1 x", "/bin/set x", "train.py A=1", "1=2"])
def test_a_program_may_be_named_alike(command: str):
    assert command_fault("ranktable", command.split()) is None


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python3 train.py --epochs 3", "train.py"),
        ("python -u -W ignore -X dev src/train.py", "src/train.py"),
        ("nohup env A=1 /opt/bin/python3.11 train.py", "train.py"),
        ("bash train.sh x", "train.sh"),
        ("sh -eu +o pipefail -- train.sh", "train.sh"),
        ("bash --rcfile x -o pipefail train.sh", "train.sh"),
        ("python -m train", None),
        ("python -c pass train.py", None),
        ("bash -euc ls train.sh", None),
        ("bash -s train.sh", None),
        ("python", None),
        ("bash", None),
        ("./train.sh train.py", None),
    ],
)
def test_the_script_of_a_command_is_what_its_interpreter_reads(command: str, script: str | None):
    assert script_of(command.split()) == script
