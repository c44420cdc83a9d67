"""A hang, as its event and as the fault that ends the generation; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ascend_supervisor.errors import HANG
from ascend_supervisor.events.hangs import HangNoticed, HangSource
from ascend_supervisor.outcome import Fault
from ascend_supervisor.phrases import have

MARGIN_SECONDS = 1.0
"""Who stopped so much earlier than the others stopped first; ranks of one step differ by less."""

OPTIONS: Mapping[HangSource, str] = {
    "silence": "--hang-timeout",
    "rank_silence": "--rank-hang-timeout",
    "watchdog": "--watchdog",
    "startup": "--startup-timeout",
    "trigger": "WATCHDOG=trigger",
    "steps": "--hang-timeout auto",
}


class SilentRank(Struct, frozen=True):
    """A rank, or a program that passes on the output of ``ranks`` (empty: they are unknown).

    It has given no sign of life for ``seconds``; ``last_line`` is the last one that it wrote.
    It had ``talked`` for so many seconds before.
    """

    name: str
    ranks: tuple[int, ...]
    seconds: float
    last_line: str = ""
    talked: float = 0.0


class Hang(Struct, frozen=True):
    """The ``silent`` have passed the ``limit``, in seconds, of the option of ``source``.

    Another rank here gave its last sign of life ``others`` seconds ago; None if there is no other.
    ``awaited`` says what did not come: at the start of a rank, or of the steps. ``is_extended``:
    one of the silent had asked for more time, which is over, so they have been silent for longer
    than the limit.
    """

    source: HangSource
    limit: float
    silent: tuple[SilentRank, ...]
    others: float | None = None
    awaited: str = ""
    is_extended: bool = False

    def event(self, generation: int) -> HangNoticed:
        ahead = self._by_silence
        return HangNoticed(
            generation=generation,
            source=self.source,
            limit_seconds=self.limit,
            ranks=self._ranks,
            silent_seconds=round(ahead[0].seconds, 3),
            last_lines=tuple(one.last_line for one in ahead),
            reason=self.reason,
        )

    @property
    def fault(self) -> Fault:
        """A charged restart after a last look; no drain, because a hung rank saves nothing."""
        return Fault(self.reason, HANG, last_look=True)

    @property
    def reason(self) -> str:
        option = OPTIONS[self.source]
        seconds = f"{self.limit:g} s"
        shortest = min(one.seconds for one in self.silent)
        if self.is_extended and shortest >= self.limit + MARGIN_SECONDS:
            option = f"{option} {seconds}, extended by EXTEND_TIMEOUT_USEC"
            seconds = f"{shortest:.0f} s"
        who = self._who
        match self.source:
            case "silence":
                return f"{self._nobody} written anything for {seconds} ({option}){self._first}"
            case "rank_silence":
                return f"{who} written nothing for {seconds} ({option}){self._latest_of_others}"
            case "watchdog":
                return f"{who} not sent WATCHDOG=1 for {seconds} ({option})"
            case "startup":
                start = "the start" if len(self._ranks) > 1 else "its start"
                return f"{who} not {self.awaited} within {seconds} of {start} ({option})"
            case "trigger":
                return f"{who} reported that it hangs ({option})"
            case "steps":
                return f"{self.awaited} for {seconds} ({option}){self._first}"

    @property
    def _by_silence(self) -> Sequence[SilentRank]:
        return sorted(self.silent, key=lambda one: (-one.seconds, one.ranks))

    @property
    def _ranks(self) -> tuple[int, ...]:
        return tuple(rank for one in self._by_silence for rank in one.ranks)

    @property
    def _who(self) -> str:
        """The subject of a sentence, with its verb."""
        ranks = self._ranks
        if not ranks:
            return f"{self._by_silence[0].name} has"
        return have("rank", ranks)

    @property
    def _nobody(self) -> str:
        if len(self._ranks) > 1:
            return "no rank on this server has"
        return f"{self._by_silence[0].name} has not"

    @property
    def _first(self) -> str:
        """Which rank stopped first, and how much earlier than the next one; if only one did.

        With many frameworks most ranks print a few lines at the start, or none: such a rank may
        have worked to the end. So it must have talked for longer than it was silent alone.
        """
        ahead = self._by_silence
        margin = ahead[0].seconds - ahead[1].seconds if len(ahead) > 1 else 0.0
        if margin < MARGIN_SECONDS or ahead[0].talked < margin:
            return ""
        return f"; {ahead[0].name} stopped first, {margin:.1f} s before the next"

    @property
    def _latest_of_others(self) -> str:
        if self.others is None:
            return ""
        return f"; the last sign of life of another rank came {self.others:.1f} s ago"
