"""From ``--method`` to the launcher; looks up which programs are installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.launchers import Boot, Launcher
from ascend_supervisor.launchers.rank_environment import MASTER_PORT
from ascend_supervisor.settings.command_words import PYTHON
from ascend_supervisor.settings.readers import Method
from ascend_supervisor.settings.sources import CONFIG_BYTES


def launcher_of(method: Method, boot: Boot, wait: float | None = None) -> Launcher:
    """The launcher of ``--method``.

    ``wait`` is for how many seconds servers may be awaited that still wait for their rank table;
    None: as long as it takes.
    """
    return LAUNCHERS[method](boot, wait)


# Each imports its launcher: a run has one, and the eight of them took 3 ms to import.


def _ranktable(boot: Boot, _: float | None) -> Launcher:
    from ascend_supervisor.launchers.ranktable import RankTableLauncher  # noqa: PLC0415

    return RankTableLauncher(boot)


def _torchrun(boot: Boot, _: float | None) -> Launcher:
    from ascend_supervisor.launchers.torchrun import TorchrunLauncher  # noqa: PLC0415

    return TorchrunLauncher(boot, installed(boot, "torchrun", "torch.distributed.run"))


def _msrun(boot: Boot, _: float | None) -> Launcher:
    from ascend_supervisor.launchers.msrun import MsrunLauncher  # noqa: PLC0415

    return MsrunLauncher(boot, installed(boot, "msrun", "mindspore.parallel.cluster.run"))


def _mindspore(boot: Boot, _: float | None) -> Launcher:
    from ascend_supervisor.launchers.mindspore import MindSporeLauncher  # noqa: PLC0415

    return MindSporeLauncher(boot)


def _mpirun(boot: Boot, wait: float | None) -> Launcher:
    from ascend_supervisor.launchers.mpirun import MpirunLauncher, Tools  # noqa: PLC0415

    config = Path(boot.inherited("HOME", "/home/ma-user"), "etc", "ssh", "sshd_config")
    text = None
    with suppress(OSError):
        text = read_regular_file(config, CONFIG_BYTES).decode(errors="surrogateescape")
    search = f"{boot.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
    program = (sys.executable, "-I", "-S")
    tools = Tools(
        head=(*program, str(PROGRAMS / "mpirun_head.py")),
        node=(*program, str(PROGRAMS / "mpirun_node.py")),
        mpirun=shutil.which("mpirun", path=search),
        sshd=shutil.which("sshd", path=search),
        sshd_config=text,
        sshd_config_path=str(config),
        is_root=os.geteuid() == 0,
        wait=wait or A_YEAR,
    )
    return MpirunLauncher(boot, tools)


def _torch_ddp(boot: Boot, _: float | None) -> Launcher:
    from ascend_supervisor.launchers.torch_ddp import TorchDdpLauncher  # noqa: PLC0415

    return TorchDdpLauncher(boot)


def _tensorflow(boot: Boot, _: float | None) -> Launcher:
    from ascend_supervisor.launchers.tensorflow import TensorFlowLauncher  # noqa: PLC0415

    return TensorFlowLauncher(boot)


def _once(boot: Boot, _: float | None) -> Launcher:
    from ascend_supervisor.launchers.once import OnceLauncher  # noqa: PLC0415

    return OnceLauncher(boot)


PROGRAMS = Path(__file__).parents[1] / "programs"
A_YEAR = 365 * 86400.0

LAUNCHERS: Mapping[Method, Callable[[Boot, float | None], Launcher]] = {
    "ranktable": _ranktable,
    "torchrun": _torchrun,
    "msrun": _msrun,
    "mindspore": _mindspore,
    "mpirun": _mpirun,
    "torch-ddp": _torch_ddp,
    "tensorflow": _tensorflow,
    "once": _once,
}


USUAL_PORTS: Mapping[Method, int] = {
    "ranktable": int(MASTER_PORT),
    "torch-ddp": int(MASTER_PORT),
    "mindspore": 8118,
    "msrun": 8118,
}
"""Where the ranks of these methods meet, if nobody says where."""


def installed(boot: Boot, program: str, module: str) -> tuple[str, ...]:
    """The command of a launcher that comes with a Python package, on this machine.

    If the user's command names its interpreter by a path, the program beside that interpreter comes
    first; then the one in PATH; then the interpreter's module. Else the bare name, to be reported
    as not found.
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
    """Where the module's file is, in all places that the interpreter may search."""
    file = f"{module.replace('.', '/')}.py"
    for folder in filter(None, environ.get("PYTHONPATH", "").split(":")):
        if os.path.isfile(found := Path(folder, file)):  # noqa: PTH113  (never raises)
            yield found
    prefixes = {Path(interpreter).parent.parent, Path(interpreter).resolve().parent.parent}
    if home := environ.get("HOME"):
        prefixes.add(Path(home, ".local"))
    for prefix in prefixes:
        with suppress(OSError):
            yield from prefix.glob(f"lib*/python3*/*-packages/{file}")
