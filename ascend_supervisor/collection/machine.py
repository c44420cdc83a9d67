"""What this machine and its container show: limits, cgroup, mounts, disks, processes, dmesg."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ascend_supervisor.collection.archive import Collector
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.processes.secrets import masked, masked_environment
from ascend_supervisor.untrusted_text import printable

MOST_BYTES = 4 * 1024 * 1024
"""Of each text."""
MOST_PROCESSES = 20_000
PROGRAM_SECONDS = 5.0
FOLDER = "machine"
MACHINE = (
    "/proc/version",
    "/proc/cmdline",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/proc/self/mountinfo",
    "/proc/self/limits",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/kernel/yama/ptrace_scope",
    "/proc/sys/fs/file-nr",
)
"""Files of the kernel that are taken one after the other into one text."""
OF_A_CGROUP = (
    *("memory.max", "memory.high", "memory.current", "memory.peak", "memory.events"),
    *("memory.stat", "memory.swap.max", "cpu.max", "cpu.stat", "cpuset.cpus.effective"),
    *("pids.max", "pids.current", "pids.peak", "io.max"),
    *("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes"),
    *("memory.failcnt", "memory.oom_control", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
)
"""Of v2, and in the last two lines of v1."""
CGROUPS = Path("/sys/fs/cgroup")


def add_machine(collector: Collector, places: Iterable[Path]) -> None:
    """Take what the kernel says of the machine, and how full the disks at ``places`` are."""
    texts = [_shown(path) for path in MACHINE]
    texts += [_space(collector, place) for place in dict.fromkeys(places)]
    collector.add_text(f"{FOLDER}/kernel.txt", "/proc", "\n".join(texts).encode())
    collector.add_text(f"{FOLDER}/cgroup.txt", str(CGROUPS), _cgroup().encode())
    collector.add_text(f"{FOLDER}/processes.txt", "/proc/PID", _processes().encode())
    _add_dmesg(collector)


def add_process(collector: Collector, name: str, pid: int, environ: Mapping[str, str]) -> None:
    """Take the limits, the cgroup and the masked environment of a process."""
    if environ:
        _add_environment(collector, name, f"/proc/{pid}/environ", environ)
    else:
        collector.leave_out(f"the environment of {name} (process {pid})", "it cannot be read")
    shown = "\n".join(_shown(f"/proc/{pid}/{file}") for file in ("limits", "cgroup", "status"))
    collector.add_text(f"{FOLDER}/{name}.limits", f"/proc/{pid}", shown.encode())


def add_own_environment(collector: Collector, environ: Mapping[str, str]) -> None:
    """Take the environment that whoever collects has, masked."""
    _add_environment(collector, "ascend-supervisorctl", "our own environment", environ)


def _add_environment(
    collector: Collector, name: str, source: str, environ: Mapping[str, str]
) -> None:
    text = masked_environment(environ)
    collector.add_text(f"{FOLDER}/{name}.env", source, text, "masked by names and forms")


def _add_dmesg(collector: Collector) -> None:
    """As ascend-fd's guide wants it: with times that people read."""
    said = output_of(("dmesg", "-T"), PROGRAM_SECONDS, MOST_BYTES * 4)
    if said.trouble and not said.is_late:
        reason = said.first_line
        collector.leave_out("dmesg", f"{said.trouble}{f': {reason}' if reason else ''}")
    else:
        collector.add_text("dmesg", "dmesg -T", said.text, said.trouble or None)


def _shown(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, MOST_BYTES)
            while len(content) < MOST_BYTES and (more := os.read(descriptor, MOST_BYTES)):
                content += more
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{path}: {reason_of(error)}\n"
    return f"{path}:\n{masked(content.decode(errors='backslashreplace'))}"


def _space(collector: Collector, place: Path) -> str:
    try:
        found = collector.disks.ask(place, partial(os.statvfs, place))
    except OSError as error:
        return f"{printable(str(place))}: {reason_of(error)}\n"
    sizes = (found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
    return (
        f"{printable(str(place))}: {sizes[0]} bytes, {sizes[1]} free; {found.f_files} files, "
        f"{found.f_favail} free\n"
    )


def _cgroup() -> str:
    """Our own: in a container it is the root below /sys/fs/cgroup."""
    texts = [_shown("/proc/self/cgroup")]
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            folder = CGROUPS / controllers.removeprefix("name=")
            texts += _cgroup_files((folder, folder / path.lstrip("/")))
    return "\n".join(dict.fromkeys(texts))


def _cgroup_files(folders: Sequence[Path]) -> list[str]:
    files = (folder / name for folder in folders for name in OF_A_CGROUP)
    return [_shown(str(file)) for file in files if file.exists()]


def _processes() -> str:
    """One line for each, with its parent, its memory and its masked command line."""
    lines = ["pid (state): command line, masked; parent, resident bytes"]
    for pid in list(proc.pids())[:MOST_PROCESSES]:
        resident = parent = None
        with suppress(OSError, ValueError):
            parent, resident = proc.parent(pid), proc.resident_bytes(pid)
        lines.append(f"{proc.description(pid)}; {parent}, {resident}")
    return "".join(f"{line}\n" for line in lines)
