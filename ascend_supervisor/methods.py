"""From ``--method`` to the launcher; what of it this machine has is looked up here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ascend_supervisor.launchers import Boot, Launcher
from ascend_supervisor.launchers.mindspore import MindSporeLauncher
from ascend_supervisor.launchers.msrun import MsrunLauncher
from ascend_supervisor.launchers.ranktable import RankTableLauncher
from ascend_supervisor.launchers.tensorflow import TensorFlowLauncher
from ascend_supervisor.launchers.torch_ddp import TorchDdpLauncher
from ascend_supervisor.launchers.torchrun import PYTHON, TorchrunLauncher
from ascend_supervisor.settings import Settings


def launcher_of(settings: Settings, environ: Mapping[str, str]) -> Launcher:
    boot = Boot(settings.command, environ, settings.restarts, settings.master_port)
    return LAUNCHERS[settings.method](boot)


def _torchrun(boot: Boot) -> Launcher:
    return TorchrunLauncher(boot, installed(boot, "torchrun", "torch.distributed.run"))


def _msrun(boot: Boot) -> Launcher:
    return MsrunLauncher(boot, installed(boot, "msrun", "mindspore.parallel.cluster.run"))


LAUNCHERS: Mapping[str, Callable[[Boot], Launcher]] = {
    "ranktable": RankTableLauncher,
    "torchrun": _torchrun,
    "msrun": _msrun,
    "mindspore": MindSporeLauncher,
    "torch-ddp": TorchDdpLauncher,
    "tensorflow": TensorFlowLauncher,
}

LAUNCHERS_OF_OTHERS = frozenset({"torchrun", "msrun"})
"""These start the workers: what is no child of ours is not told of our death by the kernel."""


def installed(boot: Boot, program: str, module: str) -> tuple[str, ...]:
    """How a launcher that comes with a Python package is called on this machine.

    Where the command names its interpreter by a path, that interpreter's own comes first; then
    what is in PATH; then the module of the interpreter. Else its bare name, which is not found.
    """
    search = boot.environ.get("PATH", os.defpath)
    word = boot.command[0]
    interpreter = shutil.which(word, path=search) if PYTHON.fullmatch(Path(word).name) else None
    beside = str(Path(interpreter).with_name(program)) if interpreter else program
    if "/" in word and os.access(beside, os.X_OK):
        return (beside,)
    if shutil.which(program, path=search):
        return (program,)
    if interpreter and os.access(beside, os.X_OK):
        return (beside,)
    if interpreter and any(_packages(interpreter, module, boot.environ)):
        return (word, "-m", module)
    return (program,)


def _packages(interpreter: str, module: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Where the module's file is, of all the places in which that interpreter may look."""
    file = f"{module.replace('.', '/')}.py"
    for folder in filter(None, environ.get("PYTHONPATH", "").split(":")):
        if (found := Path(folder, file)).is_file():
            yield found
    prefixes = {Path(interpreter).parent.parent, Path(interpreter).resolve().parent.parent}
    if home := environ.get("HOME"):
        prefixes.add(Path(home, ".local"))
    for prefix in prefixes:
        yield from prefix.glob(f"lib*/python3*/*-packages/{file}")
