"""``trial``: tries this server with real jobs, and writes their report as one archive."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from ascend_supervisor.cluster.own_devices import npu_files
from ascend_supervisor.collection.archive import Archive, Collector, member_name
from ascend_supervisor.collection.disks import Disks
from ascend_supervisor.collection.machine import add_own_environment
from ascend_supervisor.collection.npu import add_npu, devices_here
from ascend_supervisor.collection.running import supervisors
from ascend_supervisor.collection.versions import add_versions
from ascend_supervisor.ctl.collect import opened_archive
from ascend_supervisor.ctl.out import Out
from ascend_supervisor.errors import CannotWrite
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.standard_streams import STDOUT
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.trial.sequence import Trial
from ascend_supervisor.trial.server import setting_here
from ascend_supervisor.trial.summary import Setting, Summary


def setting_of(ranks: int | None, python: str | None, environ: Mapping[str, str]) -> Setting:
    """What a trial runs with here; raises Unavailable if the NPUs are in use, SettingsRefused."""
    return setting_here(ranks, python, environ, npu_files(Path("/dev")), supervisors)


def tried(
    setting: Setting, environ: Mapping[str, str], seconds: float, output: str | None, out: Out
) -> bool:
    """Whether every step that is possible is ok; the report is in ``output`` (``-`` is stdout).

    Raises a KeyboardInterrupt when the report of what there is has been written; CannotWrite, and
    what ``out`` raises.
    """
    to_stdout = output == "-"
    say = out.say if to_stdout else out.line
    usual = f"ascend-supervisor-trial-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}.tar.gz"
    path = None if to_stdout else Path(output or usual)
    is_terminal = os.isatty(STDOUT)
    with (
        trial_directory() as directory,
        opened_archive(path, out.put, "trial", is_terminal=is_terminal) as put,
    ):
        trial = Trial(setting, environ, directory, seconds, say)
        summary = trial.run()
        say(f"{summary.verdict}; now the report is written")
        packing = Call(partial(pack, put, summary, directory, environ))
        try:
            packing.wait(PACK_SECONDS)
        except KeyboardInterrupt as late:  # nobody wants half a report
            trial.interrupt = late
        packing.within(PACK_SECONDS, None)
    say(f"the report is {path or 'on stdout'}: look through it, then send it")
    if trial.interrupt is not None:
        raise trial.interrupt
    return summary.is_good


ROOM = 64 * 1024 * 1024
"""What is taken before compression: an issue takes an archive of 25 MB."""
MOST_OF_A_FILE = 2 * 1024 * 1024
TOPOLOGY = (("npu-smi", "info", "-t", "topo"), ("lscpu",), ("uname", "-a"))
SECONDS = 10.0
PACK_SECONDS = 600.0
"""More than what is asked for it can take altogether."""
TOLD = re.compile(r"(ASCEND|HCCL|CANN|PYT|LD_|OMP_|TORCH|MS_|NPU|CPU_|GLOO|RANK|PATH).*")
"""Variables that matter to ranks; the archive goes to strangers, and has no others."""


@contextmanager
def trial_directory() -> Iterator[Path]:
    """A directory for the time of the trial; raises CannotWrite."""
    try:
        made = tempfile.TemporaryDirectory(prefix="ascend-trial-", ignore_cleanup_errors=True)
    except OSError as error:
        raise CannotWrite(
            f"no temporary directory can be made: {reason_of(error)}; set TMPDIR to one with room"
        ) from error
    with made as name:
        yield Path(name)


def pack(
    put: Callable[[bytes], object], summary: Summary, directory: Path, environ: Mapping[str, str]
) -> None:
    """Write the archive; raises what ``put`` raises."""
    archive = Archive(put, member_name(f"trial-{summary.host}"))
    collector = Collector(archive, Disks(frozenset({os.geteuid()})), ROOM)
    collector.add_text("summary.txt", "the trial", summary.page.encode())
    collector.add_text("summary.json", "the trial", to_json(summary, indent=True) + b"\n")
    told = {name: environ[name] for name in environ if TOLD.fullmatch(name)}
    add_own_environment(collector, told)
    add_versions(collector, environ, summary.setting.python)
    add_npu(collector, environ, devices_here())
    for command in TOPOLOGY:
        said = output_of(command, SECONDS, MOST_OF_A_FILE, environ)
        if said.text:
            name = member_name("machine", f"{'-'.join(command)}.txt")
            collector.add_text(name, " ".join(command), said.text)
    for path in sorted(directory.rglob("*"), key=lambda one: (len(one.parts), one)):
        if path.is_file() and not path.is_symlink():
            parts = path.relative_to(directory).parts
            collector.add_file(member_name("steps", *parts), path, MOST_OF_A_FILE)
    left_out = "".join(f"{one.source}: {one.why}\n" for one in collector.left_out)
    archive.add("left-out.txt", left_out.encode(), time.time())
    archive.close()
