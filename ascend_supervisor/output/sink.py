"""Where output of a process goes: its log and the console; with its last lines and activity."""

from __future__ import annotations

from ascend_supervisor.life import Activity
from ascend_supervisor.output.log_thread import LogWriter
from ascend_supervisor.output.mirror import CHUNK_BYTES, Mirror
from ascend_supervisor.tasks.clock import Clock


class Sink:
    """``log`` is None if the process writes its log itself, ``mirror`` if it is not shown.

    ``activity`` says how much came and when.
    """

    def __init__(self, log: LogWriter | None, mirror: Mirror | None, clock: Clock) -> None:
        self.activity = Activity(clock.now())
        self._log = log
        self._mirror = mirror
        self._clock = clock

    @property
    def portion(self) -> int:
        """How many bytes ``take`` should get at once."""
        return self._mirror.portion if self._mirror else CHUNK_BYTES

    async def room_in_log(self) -> None:
        """Return when the log has room for a chunk, or nothing to wait for."""
        if self._log:
            await self._log.room()

    async def room_on_console(self) -> None:
        """Return when output can be shown, or must be dropped."""
        if self._mirror:
            await self._mirror.room()

    def take(self, chunk: bytes) -> None:
        self.activity.take(chunk, self._clock.now())
        if self._log:
            self._log.take(chunk)
        if self._mirror:
            self._mirror.take(chunk)

    def heard(self, size: int) -> None:
        """Note that the process has written ``size`` bytes."""
        self.activity.note(size, self._clock.now())

    def end(self) -> None:
        """Nothing follows."""
        if self._mirror:
            self._mirror.end()

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the output so far."""
        return self.activity.last_lines
