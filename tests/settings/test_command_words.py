"""A launcher as COMMAND is refused where the method would start it as a rank."""

from __future__ import annotations

import re
import shlex

import pytest

from ascend_supervisor.settings.command_words import (
    command_fault,
    launcher_in_script,
    nested_launcher,
    script_of,
)
from ascend_supervisor.settings.options import METHODS
from ascend_supervisor.settings.readers import Method

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
    ("command", "words"),
    [
        ("accelerate launch --multi_gpu --num_processes=2 -m train", "accelerate launch"),
        ("accelerate launch --num_processes 4 train.py", "accelerate launch"),
        (
            "python -m accelerate.commands.launch --num_processes 8 --num_machines 2 train.py",
            "python -m accelerate.commands.launch",
        ),
        ("deepspeed --num_gpus 4 train.py", "deepspeed"),
        ("python -m deepspeed.launcher.runner train.py", "python -m deepspeed.launcher.runner"),
        ("FORCE_TORCHRUN=1 llamafactory-cli train sft.yaml", "llamafactory-cli train"),
        ("env NPROC_PER_NODE=4 swift sft --model x", "swift sft"),
        ("NPROC_PER_NODE=4 swift sft", "swift sft"),
        ("env NPROC_PER_NODE=4 xtuner train config.py", "xtuner train"),
        ("ray start --head --block", "ray start"),
        ("colossalai run --nproc_per_node 4 train.py", "colossalai run"),
        ("horovodrun -np 4 python train.py", "horovodrun"),
        ("srun -N 2 python train.py", "srun"),
        ("trl sft --config x --num_processes 4", "trl sft"),
        ("axolotl train c.yaml --num-processes 4", "axolotl train"),
        ("python -m ascend_supervisor -- python train.py", "python -m ascend_supervisor"),
    ],
)
def test_a_launcher_that_no_method_calls_is_started_once(command: str, words: str):
    fault = nested_launcher("ranktable", shlex.split(command))
    assert fault == (
        f"COMMAND: --method ranktable expected the program of a rank, found {words}, which starts "
        f"ranks itself; start it as it is: --method once -- {words} ..., or let the supervisor "
        "start what each rank runs: -- python train.py ..."
    )
    assert nested_launcher("once", shlex.split(command)) is None


@pytest.mark.parametrize(
    "command",
    [
        "accelerate launch --num_processes 1 train.py",
        "accelerate launch --num-processes=1 train.py",
        "accelerate config",
        "accelerate launch train.py",
        "accelerate launch train.py --num_processes 4",
        "accelerate launch --quiet -m train --num_processes 4",
        "accelerate launch --multi_gpu train.py",
        "accelerate launch --config_file c.yaml train.py",
        "accelerate launch --config_file=c.yaml --num_processes 4 train.py",
        "accelerate launch --num_processes 4 --num_machines 4 --machine_rank 1 train.py",
        "accelerate launch --cpu --num_processes 4 train.py",
        "python -m accelerate.commands.accelerate_cli launch train.py",
        "llamafactory-cli train sft.yaml",
        "env FORCE_TORCHRUN=0 llamafactory-cli train sft.yaml",
        "trl sft --config x",
        "axolotl train c.yaml",
        "llamafactory-cli version",
        "swift sft --model x",
        "swift export --model x",
        "xtuner train config.py",
        "ray status",
        "axolotl train c.yaml --launcher=python",
        "axolotl train c.yaml --launcher python",
        "python train.py deepspeed --launcher deepspeed",
    ],
)
def test_a_launcher_that_starts_no_ranks_may_be_one(command: str):
    assert nested_launcher("ranktable", shlex.split(command)) is None


def test_variables_from_outside_make_ranks_of_one_command():
    assert nested_launcher("ranktable", ["swift", "sft"], {"NPROC_PER_NODE"}) is not None


@pytest.mark.parametrize(
    "before",
    [
        "timeout -s KILL -k 5 2h",
        "timeout --signal=KILL -- 2h",
        "taskset -c 0-15",
        "taskset 0xff",
        "numactl -N 0 --membind 0",
        "numactl --cpunodebind=0 -m 0",
        "time -p",
        "/usr/bin/time -f %e -o times",
        "nice -n 5 nohup setsid stdbuf -oL",
        "ionice -c 2 -n 0",
        "chrt -f 50",
        "sudo -E -u me A=1",
        "gosu me",
        "setpriv --reuid 1000 --clear-groups",
        "tini -g --",
        "dumb-init",
        "strace -f -o trace",
        "conda run -n torch --no-capture-output",
        "uv run --with x",
        "env -S A=1",
        "A=1",
        "flock /tmp/lock",
        "perf stat -e cycles",
        "perf record -g -o x --",
        "unshare --mount --fork",
        "chroot --userspec=me /x",
        "runuser -u me --",
        "busybox nice -n 5",
        "xargs -n 3",
        "watch -n 5",
        "eval",
        "ltrace -f",
        "doas -u me",
        "nsys profile -o x",
        "py-spy record -o x --",
        "msprof --output=x",
        "unshare -r chroot /x nice",
        "bash -c 'cd x && source env.sh; exec \"$@\"'",
    ],
)
def test_what_stands_before_a_launcher_is_looked_through(before: str):
    words = shlex.split(before)
    is_hidden = words[0] == "bash"
    for launcher in ("deepspeed train.py", "python3 -um torch.distributed.run train.py"):
        fault = nested_launcher("ranktable", [*words, *launcher.split()])
        assert (fault is None) == is_hidden


@pytest.mark.parametrize(
    "text",
    [
        "torchrun train.py",
        "cd x && source env.sh && exec torchrun train.py 2>&1 | tee log",
        "set -e; A=1 B='2 3' torchrun train.py",
        "ARGS=(\n --a 1\n --b\n)\ntorchrun ${ARGS[@]} \\\n train.py > log &\nwait",
        "if [ -z $A ]; then usage; exit 1; fi\ntorchrun train.py",
        "while [ $# -gt 0 ]; do case $1 in -h) shift;; *) shift;; esac; done; torchrun t.py",
        "usage() { echo; }\n{ echo a; }\n(cd x; torchrun train.py)",
        "# don't\necho 'one\ntwo'; X=$(hostname); time torchrun train.py",
        "timeout 5 bash -lc 'torchrun train.py'",
        "[ -d x ] && cd x; torchrun t.py",
        "[ -d x ] || mkdir x\ntorchrun t.py",
        "python3 prepare.py; torchrun train.py",
    ],
)
def test_a_shell_that_starts_a_launcher_in_any_case_is_no_rank(text: str):
    fault = nested_launcher("ranktable", ["bash", "-euc", text])
    assert fault is not None
    assert "found torchrun, which starts ranks itself" in fault
    assert launcher_in_script(text) == "torchrun"


@pytest.mark.parametrize(
    "text",
    [
        "python train.py torchrun",
        "echo 'use torchrun'; echo torchrun; python train.py # torchrun x",
        "if [ $LAUNCH ]; then torchrun train.py; else python train.py; fi",
        "if [ $RANK ]; then exec python train.py; fi; torchrun train.py",
        "if [ $RANK ]; then python train.py; exit $?; fi; torchrun train.py",
        "[ $RANK = 0 ] && torchrun train.py",
        "[ $RANK = 0 ] && echo first && torchrun train.py",
        "python train.py || torchrun train.py",
        "for at in 1 2; do torchrun train.py; done",
        "launch() { torchrun train.py; }\npython train.py",
        "function launch {\n torchrun train.py\n}\npython train.py",
        "X=$(torchrun --help); Y=(torchrun train.py); python train.py",
        "cat <<END\ntorchrun train.py\nEND\npython train.py",
        "exec python train.py\ntorchrun train.py",
        "$LAUNCHER train.py",
        "echo 'a quote; torchrun train.py",
    ],
)
def test_what_a_shell_may_or_may_not_start_is_left_to_it(text: str):
    assert nested_launcher("ranktable", ["bash", "-c", text]) is None
    assert launcher_in_script(text) is None


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
        ("timeout 5m taskset -c 0-3 python3 train.py", "train.py"),
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


@pytest.mark.parametrize(
    "text",
    [
        "command -v torchrun >/dev/null || exit 1\npython train.py",
        "command -V deepspeed && echo yes",
        "sudo -l torchrun",
        "mpirun --version",
        "torchrun --version\npython train.py",
        "horovodrun --check-build",
        "python -m torch.distributed.run --help",
        "T=`which torchrun 2>/dev/null`\npython train.py",
        "(( N > 1 )) && torchrun x.py",
        "[ $N -gt 1 ] && {\n torchrun x.py\n}",
        "[ $N = 1 ] || {\n mpirun x\n}",
        "$USE_DIST && torchrun x.py",
        "is_dist && torchrun x.py | tee log",
        "torchrun --nproc_per_node=1 --nnodes=$WORLD_SIZE --node_rank=$RANK t.py",
    ],
)
def test_a_launcher_that_may_not_be_started_is_none(text):
    assert launcher_in_script(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "cd /code && torchrun --nproc_per_node=8 x.py",
        "set -e; source env.sh && export A=1 && torchrun x.py 2>&1 | tee log",
        "[ -d out ] || mkdir out\ntorchrun x.py",
        "{ torchrun x.py; }",
    ],
)
def test_a_launcher_that_is_started_in_any_case_is_found(text):
    assert launcher_in_script(text) == "torchrun"
