"""``trial``: tries this server with real jobs, and writes their report as one archive."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from ascend_supervisor.ctl.collect import opened_archive
from ascend_supervisor.ctl.out import Out
from ascend_supervisor.files.standard_streams import STDOUT
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.trial.parcel import PACK_SECONDS, pack, trial_directory
from ascend_supervisor.trial.sequence import Trial
from ascend_supervisor.trial.summary import Setting


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
