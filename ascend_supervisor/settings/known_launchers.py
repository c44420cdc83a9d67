"""The programs that start ranks themselves, and when they do so for certain; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from ascend_supervisor.settings.readers import Method


class KnownLauncher(Struct, frozen=True):
    """A program that starts ranks itself.

    ``method`` is the one that calls it, if there is one. It starts ranks only with one of the
    ``words`` first, and one of the ``variables`` set, if it has such; and not if one of the options
    ``one`` is 1, or an option is one of the ``alone``. With ``may_be_one`` it does so only if its
    own options ask for more processes than machines: else a device or a file decides.
    """

    method: Method | None = None
    words: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    one: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    may_be_one: bool = False


_SWIFT = frozenset({"NPROC_PER_NODE", "NNODES"})
_TRAIN = frozenset({"train"})
_TORCHRUN = KnownLauncher("torchrun", one=frozenset({"--nproc_per_node", "--nproc-per-node"}))
_MSRUN = KnownLauncher("msrun")
_MPIRUN = KnownLauncher("mpirun")
_ANY = KnownLauncher()
_CPU = frozenset({"--cpu", "--use_cpu", "--use-cpu"})
_ACCELERATE = KnownLauncher(words=frozenset({"launch"}), alone=_CPU, may_be_one=True)
_ACCELERATE_LAUNCH = KnownLauncher(alone=_CPU, may_be_one=True)
_LLAMAFACTORY = KnownLauncher(words=_TRAIN, variables=frozenset({"FORCE_TORCHRUN"}))
_MS_SWIFT = KnownLauncher(words=frozenset({"pt", "sft", "rlhf", "infer"}), variables=_SWIFT)
_XTUNER = KnownLauncher(words=_TRAIN, variables=frozenset({"NPROC_PER_NODE", "NNODES"}))
_RUN = KnownLauncher(words=frozenset({"run"}))
_RAY = KnownLauncher(words=frozenset({"start", "up", "job", "submit"}))
_TRL = KnownLauncher(
    words=frozenset({"sft", "dpo", "grpo", "kto", "reward", "rloo"}), may_be_one=True
)
_AXOLOTL = KnownLauncher(
    words=_TRAIN,
    alone=frozenset({"--launcher=python", "--no-accelerate"}),
    may_be_one=True,
)

KNOWN_LAUNCHERS: Mapping[str, KnownLauncher] = {
    "torchrun": _TORCHRUN,
    "torch_npu_run": _TORCHRUN,
    "python -m torch.distributed.run": _TORCHRUN,
    "python -m torch.distributed.launch": _TORCHRUN,
    "python -m torch_npu.distributed.run": _TORCHRUN,
    "msrun": _MSRUN,
    "python -m mindspore.parallel.cluster.run": _MSRUN,
    "mpirun": _MPIRUN,
    "mpiexec": _MPIRUN,
    "mpiexec.hydra": _MPIRUN,
    "orterun": _MPIRUN,
    "prterun": _MPIRUN,
    "accelerate": _ACCELERATE,
    "accelerate-launch": _ACCELERATE_LAUNCH,
    "python -m accelerate.commands.launch": _ACCELERATE_LAUNCH,
    "python -m accelerate.commands.accelerate_cli": _ACCELERATE,
    "deepspeed": _ANY,
    "python -m deepspeed.launcher.runner": _ANY,
    "python -m deepspeed.launcher.launch": _ANY,
    "llamafactory-cli": _LLAMAFACTORY,
    "lmf": _LLAMAFACTORY,
    "python -m llamafactory.cli": _LLAMAFACTORY,
    "swift": _MS_SWIFT,
    "megatron": _MS_SWIFT,
    "python -m swift.cli.main": _MS_SWIFT,
    "xtuner": _XTUNER,
    "colossalai": _RUN,
    "python -m colossalai.cli": _RUN,
    "horovodrun": _ANY,
    "python -m horovod.runner.launch": _ANY,
    "srun": _ANY,
    "sbatch": _ANY,
    "fleetrun": _ANY,
    "python -m paddle.distributed.launch": _ANY,
    "composer": _ANY,
    "fabric": _RUN,
    "torchx": _RUN,
    "trl": _TRL,
    "axolotl": _AXOLOTL,
    "ray": _RAY,
    "python -m ray.scripts.scripts": _RAY,
    "ascend-supervisor": _ANY,
    "python -m ascend_supervisor": _ANY,
}
_ASKS_IT = frozenset({"--version", "-V", "--help", "-h", "--check-build"})
"""A launcher with one of these starts nothing."""


_PROCESSES = re.compile(r"--num[_-]?processes=(\d+)|--processes=(\d+)")
_MACHINES = re.compile(r"--num[_-]machines=(\d+)")
_WITHOUT_VALUE = frozenset(
    {"-m", "--module", "--no_python", "-q", "--quiet", "--debug", "--multi_gpu", "--multi-gpu"}
    | {"--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--use_xpu", "--ipex"}
    | {"--same_network", "--enable_cpu_affinity"}
)
"""Options of accelerate that a script may follow."""
_FILES = ("--config_file", "--config-file")


def starts_ranks(launcher: KnownLauncher, words: Sequence[str], variables: frozenset[str]) -> bool:
    """Whether it does, with the ``words`` behind its name, where the ``variables`` are set."""
    if launcher.words and not {*words[:1]} & launcher.words:
        return False
    if _ASKS_IT & {*words} or (launcher.variables and not launcher.variables & variables):
        return False
    if launcher.may_be_one:
        words = _own_options(words[1:] if launcher.words else words)
    pairs = {f"{option}={value}" for option, value in pairwise(words)}
    ones = {f"{option}=1" for option in launcher.one}
    if (pairs | {*words}) & (ones | launcher.alone):
        return False
    return not launcher.may_be_one or _asks_for_several(words, pairs)


def _own_options(words: Sequence[str]) -> list[str]:
    """The words before the script, whose options are its own."""
    before = ""
    for at, word in enumerate(words):
        is_value = before.startswith("-") and before not in _WITHOUT_VALUE and "=" not in before
        is_file = word.endswith((".yaml", ".yml"))
        if not (word.startswith("-") or is_file or (is_value and not word.endswith(".py"))):
            return [*words[:at]]
        before = word
    return [*words]


def _asks_for_several(words: Sequence[str], pairs: Collection[str]) -> bool:
    """Whether these options of accelerate start several processes on this machine.

    Without a number of processes it is that of the devices, or that of a file, which may name
    several machines, too.
    """
    given = [*words, *pairs]
    numbers = [int(found[1] or found[2]) for one in given if (found := _PROCESSES.fullmatch(one))]
    machines = [int(found[1]) for one in given if (found := _MACHINES.fullmatch(one))]
    if not machines and any(word.startswith(_FILES) for word in words):
        return False
    return max(numbers, default=1) > max(machines, default=1)
