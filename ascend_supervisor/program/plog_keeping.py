"""Of which generations CANN's own logs (plog) are kept: the last ones of this start (--plog-keep).

Nothing is removed but in the directories that we give to the ranks of a job with a name, and on the
container's own file system: elsewhere a process with the same pid in another container may have
written a log at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.output import PlogsRemoved
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.job_files import CANN_LOGS, UNNAMED_JOB, Place, cann_log_root
from ascend_supervisor.life import Life
from ascend_supervisor.outcome import Ended
from ascend_supervisor.process_spec import ProcessSpec, changed
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.workers.generation import Company, Run
from ascend_supervisor.workers.plog_removal import LogTree, Removed, Writers, remove_plogs

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
        """The removal that is not noted yet."""
        self._untold: list[Event] = []
        self._is_running = False
        self._has_complained = False
        self._shared: Call[list[LogTree]]

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
        if due and self._call is None:
            writers = [one for ended in due for one in ended]
            self._call = Call(partial(remove_plogs, writers, REMOVAL_SECONDS))
            self._call.then(partial(self._note, self._call, len(due)))

    def _note(self, call: Call[Removed], due: int) -> None:
        self._call = None
        with suppress(NoThread):  # the next generation tries again
            removed = call.answer
            if removed.is_all:
                del self._ended[:due]
            if removed.files:
                self._say(PlogsRemoved(removed.files, removed.bytes, self._keep))

    def _say(self, event: Event) -> None:
        """Report it, but not between generations: the last event may have been told."""
        self._untold.append(event)
        if self._is_running:
            self._tell()

    def _tell(self) -> None:
        for event in self._untold:
            self._report(event)
        self._untold.clear()

    def _complain(self, life: Life) -> None:
        """Say once why nothing will be removed, if that is so."""
        if self._has_complained:
            return
        self._has_complained = True
        speakers = [spec for spec in life.plan.specs if spec.speaks_for_ranks]
        for spec in speakers:
            if spec.rank is None and not spec.workers:
                self._tell_why(f"the ranks are started by {spec.name}, and their pids are unknown")
                return
        trees = {tree for spec in speakers if (tree := self._tree(spec)) is not None}
        self._shared = Call(lambda: [tree for tree in trees if not tree.is_ours_alone])
        self._shared.then(self._tell_shared)

    def _tell_shared(self) -> None:
        with suppress(NoThread):
            for tree in self._shared.answer[:1]:
                self._tell_why(
                    f"other containers may write to {tree.path}, too, with the same pids; "
                    f"{self._remedy(tree)}"
                )

    def _tell_why(self, reason: str) -> None:
        self._say(Diagnostic("--plog-keep", f"no logs of CANN are removed: {reason}", None))

    def _remedy(self, tree: LogTree) -> str:
        if tree.is_of_job:
            return f"mount nothing in {self._place.log_dir / self._place.job_id}"
        if self._is_usual(tree.path):
            return "give the job a name that no other job has, with JOB_ID"
        return f"leave {CANN_LOGS} unset, and name the job with JOB_ID"

    def _writers(self, life: Life, began: float, ended: float) -> Iterator[Writers]:
        for living in life.processes:
            tree = self._tree(living.spec)
            if tree is not None:
                pids = frozenset({living.pid, *living.ranks_of_workers})
                yield Writers(tree, pids, began, ended)

    def _tree(self, spec: ProcessSpec) -> LogTree | None:
        root = cann_log_root(changed(self._environ, spec.environ), Path(spec.cwd))
        if root is None:
            return None
        if self._is_usual(root) and self._place.job_id != UNNAMED_JOB:
            top = Path(self._place.log_dir)
            return LogTree(top, root.relative_to(top), is_of_job=True)
        return LogTree(root, PurePath(), is_of_job=False)

    def _is_usual(self, root: Path) -> bool:
        """Whether it is a directory that we have made up for this job."""
        return root.is_relative_to(self._place.process_logs) and ".." not in root.parts
