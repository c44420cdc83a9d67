"""The etcd that the first server of a job starts, with --peers first."""

from __future__ import annotations

from typing import ClassVar

from ascend_supervisor.events import Event, Level


class EtcdStarted(Event, frozen=True):
    """It answers. ``data`` is its directory."""

    name: ClassVar[str] = "etcd.started"
    url: str
    child_pid: int
    log: str
    data: str

    @property
    def sentence(self) -> str:
        return (
            f"the etcd of the job runs here, at {self.url} (process {self.child_pid}, log "
            f"{self.log}, data {self.data})"
        )


class EtcdEnded(Event, frozen=True):
    """It has ended before the job; ``how`` continues a sentence.

    It starts again, on its data, after ``delay_seconds``; None: it does not.
    """

    name: ClassVar[str] = "etcd.ended"
    level: ClassVar[Level] = "warning"
    how: str
    log: str
    delay_seconds: float | None

    @property
    def severity(self) -> Level:
        return "error" if self.delay_seconds is None else self.level

    @property
    def sentence(self) -> str:
        if self.delay_seconds is None:
            return (
                f"the etcd of the job {self.how}, and is not started again: the job ends at "
                f"--peers-fence; see {self.log}"
            )
        return (
            f"the etcd of the job {self.how}; it is started again in {self.delay_seconds:g} s; see "
            f"{self.log}"
        )


class EtcdWaiting(Event, frozen=True):
    """``what`` is waited for: that it answers, or that the other servers need it no more."""

    name: ClassVar[str] = "etcd.waiting"
    what: str
    waited_seconds: float
    limit_seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"{self.what} ({self.waited_seconds:.0f} s so far, {self.limit_seconds:.0f} s at most)"
        )
