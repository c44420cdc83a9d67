"""Of which generations CANN's own logs (plog) are kept: the last ones of this start (--plog-keep).

Nothing is removed but in the directories that we give to the ranks of a job with a name: elsewhere
a process with the same pid in another container may have written a log at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from ascend_supervisor.control.operations import Run
from ascend_supervisor.events import Report
from ascend_supervisor.events.output import PlogsRemoved
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.job_files import UNNAMED_JOB, Place
from ascend_supervisor.launchers.common_parts import process_logs
from ascend_supervisor.launchers.process_spec import ProcessSpec, changed
from ascend_supervisor.life import Life
from ascend_supervisor.outcome import Ended
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.workers.examination import log_root
from ascend_supervisor.workers.generation import Company
from ascend_supervisor.workers.plog_removal import Removed, Writers, remove_plogs

REMOVAL_SECONDS = 60.0
"""How long one removal may take; the next one goes on with what is left."""


class PlogKeeping:
    """Remembers who logged in the generations of this start, of which ``keep`` are kept.

    ``environ`` is our own, ``now`` the Unix time in seconds.
    """

    def __init__(
        self,
        keep: int,
        place: Place,
        environ: Mapping[str, str],
        report: Report,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keep = keep
        self._place = place
        self._environ = environ
        self._report = report
        self._now = now
        self._ended: list[tuple[Writers, ...]] = []
        """By generation; those whose logs were removed are not among them."""
        self._call: Call[Removed] | None = None
        self._untold: PlogsRemoved | None = None
        self._is_running = False
        self._has_complained = False

    def around(self, run: Run) -> Run:
        """``run``, with the removal at its start."""

        async def kept(life: Life, company: Company) -> Ended:
            self._begin(life)
            began = self._now()
            try:
                return await run(life, company)
            finally:
                self._is_running = False
                if life.processes:
                    self._ended.append(tuple(self._writers(life, began, self._now())))

        return kept

    def _begin(self, life: Life) -> None:
        """Remove what is due, in a thread that nobody waits for.

        If the last removal hangs in a file system, there is no other beside it.
        """
        self._is_running = True
        self._tell()
        self._complain(life)
        due = self._ended[: max(len(self._ended) - self._keep, 0)]
        if due and (self._call is None or self._call.is_done):
            writers = [one for ended in due for one in ended]
            self._call = Call(partial(remove_plogs, writers, REMOVAL_SECONDS))
            self._call.then(partial(self._note, self._call, len(due)))

    def _note(self, call: Call[Removed], due: int) -> None:
        with suppress(NoThread):  # the next generation tries again
            removed = call.answer
            if removed.is_all:
                del self._ended[:due]
            if removed.files:
                self._untold = PlogsRemoved(removed.files, removed.bytes, self._keep)
        if self._is_running:  # else the last event may have been told
            self._tell()

    def _tell(self) -> None:
        untold, self._untold = self._untold, None
        if untold is not None:
            self._report(untold)

    def _complain(self, life: Life) -> None:
        """Say once where nothing will be removed."""
        if self._has_complained:
            return
        for spec in life.plan.specs:
            root = self._root(spec)
            if spec.speaks_for_ranks and root is not None and not self._is_ours(root):
                self._has_complained = True
                self._report(Diagnostic("--plog-keep", self._complaint(root), None))
                return

    def _complaint(self, root: Path) -> str:
        usual = process_logs(self._place)
        what = f"CANN's logs in {root} are not removed, because another job may write there, too"
        if root.is_relative_to(usual):
            return f"{what}: give the job a name with JOB_ID, which leads to a directory of its own"
        return (
            f"{what}: only those in {usual} are; ranks log there unless ASCEND_PROCESS_LOG_PATH is "
            "set, or their launch method is once or mpirun"
        )

    def _writers(self, life: Life, began: float, ended: float) -> Iterator[Writers]:
        for living in life.processes:
            root = self._root(living.spec)
            if root is not None and self._is_ours(root):
                top = Path(self._place.log_dir)
                pids = frozenset({living.pid, *living.ranks_of_workers})
                yield Writers(top, root.relative_to(top), pids, began, ended)

    def _root(self, spec: ProcessSpec) -> Path | None:
        return log_root(changed(self._environ, spec.environ), Path(spec.cwd))

    def _is_ours(self, root: Path) -> bool:
        """Whether we have made it up, with the name of the job in it, and nothing leads out."""
        is_own = root.is_relative_to(process_logs(self._place)) and ".." not in root.parts
        return is_own and self._place.job_id != UNNAMED_JOB
