"""A launcher behind programs, variables and functions is found where it is certain."""

from __future__ import annotations

import shlex

import pytest

from ascend_supervisor.settings.command_words import (
    launcher_in_script,
    nested_launcher,
    script_of,
)


@pytest.mark.parametrize(
    "command",
    [
        "script -qec 'torchrun x.py' /dev/null",
        "script --command='cd x && torchrun x.py' log",
        "su me -c 'torchrun x.py'",
        "su - me --command 'torchrun x.py'",
        "runuser me -c 'torchrun x.py'",
        "flock lock -c 'torchrun x.py'",
        "busybox sh -c 'torchrun x.py'",
        "msprof --application='torchrun x.py'",
        "watch 'torchrun x.py'",
        "nice script -c 'nice torchrun x.py'",
    ],
)
def test_text_that_a_program_gives_to_a_shell_is_read(command: str):
    fault = nested_launcher("ranktable", shlex.split(command))
    assert fault is not None
    assert "found torchrun, which starts ranks itself" in fault


@pytest.mark.parametrize(
    "before",
    [
        "python -m cProfile -o x -s cumtime",
        "python -um cProfile",
        "python3 -m coverage run --rcfile x -p",
        "coverage run --source=x",
        "python -m pdb",
        "nice python -m cProfile -m coverage run",
    ],
)
def test_what_a_profiler_runs_is_found(before: str):
    for command in ("-m torch.distributed.run x.py", "/opt/bin/torchrun x.py"):
        assert nested_launcher("ranktable", [*before.split(), *command.split()]) is not None
    assert nested_launcher("ranktable", [*before.split(), "train.py", "torchrun"]) is None


@pytest.mark.parametrize(
    "command",
    [
        "flock -n lock torchrun x.py",
        "flock -w 5 lock -c 'torchrun x.py'",
        "flock lock python -c torchrun",
        "runuser -u me -- python -c torchrun",
        "runuser -u me python -c torchrun",
        "xargs -r torchrun",
        "perf report torchrun",
        "script -c 'python train.py' torchrun",
        "coverage report torchrun",
        "python -m cProfile",
        "eval",
        "watch",
        "su me",
        "chroot /x",
    ],
)
def test_a_program_that_may_start_no_launcher_is_left_alone(command: str):
    assert nested_launcher("ranktable", shlex.split(command)) is None


@pytest.mark.parametrize(
    "text",
    [
        'eval "torchrun x.py"',
        'CMD="torchrun x.py"\neval "$CMD"',
        "$(which torchrun) x.py",
        "`which torchrun` x.py",
        'python "$(command -v torchrun)" x.py',
        'CMD="torchrun --nproc_per_node=$N x.py"; $CMD',
        "RUN=torchrun\nexec ${RUN} x.py",
        "RUN=$(which torchrun); nohup $RUN x.py",
        'main() { torchrun x.py; }\nmain "$@"',
        'main() {\n  cd x\n  run 1\n}\nrun() {\n  torchrun x.py\n}\nmain "$@"',
        'function main {\n  CMD="torchrun x.py"\n  $CMD\n}\nmain',
        "function main() { if [ $A ]; then B=1; fi; torchrun x.py; }; main | tee log",
        "log() { echo; return 0; }; log hi; torchrun x.py",
        "usage() { echo; exit 1; }; torchrun x.py",
    ],
)
def test_a_shell_is_followed_into_its_variables_and_functions(text: str):
    assert launcher_in_script(text) == "torchrun"


@pytest.mark.parametrize(
    "text",
    [
        "main() { torchrun x.py; }",
        "main() { torchrun x.py; }; [ $A ] && main",
        "main() { torchrun x.py; }; if [ $A ]; then main; fi; python train.py",
        "if [ $A ]; then main() { torchrun x.py; }; else main() { python x.py; }; fi; main",
        "main() { if [ $A ]; then torchrun x.py; fi; }; main",
        "main() { torchrun x.py; }; main() { python x.py; }; main",
        "main() { exec python x.py; }; main; torchrun x.py",
        "main() { exit 0; }; main; torchrun x.py",
        "usage() { exit 0; }; [ $A ] && usage; torchrun x.py",
        "all() { usage; }; usage() { exit; }; [ $A ] && all; torchrun x.py",
        "main() { main; }; main",
        "go() { exit 0; }; main() { go; }; main; torchrun x.py",
        "torchrun() { python x.py; }; torchrun",
        'CMD="python x.py"; [ $A ] && CMD="torchrun x.py"; $CMD',
        'CMD="torchrun x.py"; if [ $A ]; then CMD="python x.py"; fi; $CMD',
        'CMD="torchrun x.py"; pick() { CMD="python x.py"; }; [ $A ] && pick; $CMD',
        'CMD="torchrun x.py"; pick() { CMD="python x.py"; }; pick; $CMD',
        "CMD=torchrun; . ./env.sh; $CMD x.py",
        "CMD=torchrun; read CMD; $CMD x.py",
        "for CMD in python torchrun; do :; done; $CMD x.py",
        "CMD=${CMD:-torchrun}; $CMD x.py",
        "CMD=torchrun; CMD+=.py; $CMD x.py",
        "main() { local CMD=torchrun; }; CMD=python; main; $CMD x.py",
        "echo $(which torchrun)",
        "T=$(which torchrun); [ -x $T ] && echo; python x.py",
        'eval "if [ $A ]; then torchrun x.py; fi"',
        "export FORCE_TORCHRUN=0; llamafactory-cli train x",
    ],
)
def test_what_a_variable_or_function_may_change_is_left_to_the_shell(text: str):
    assert launcher_in_script(text) is None


@pytest.mark.parametrize(
    "command",
    ["env -C sub python3 train.py", "sudo -D /x bash train.sh", "chroot /x python3 train.py"],
)
def test_a_script_in_another_directory_is_not_looked_for(command: str):
    assert script_of(command.split()) is None
