"""Like events of several ranks as one line, in order, and soon."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import GenerationStarted, ProcessExited, ProcessStarted
from ascend_supervisor.reporters.joiner import Joiner, joined, kind_of, spans
from tests.running import DEADLINE_SECONDS

EXIT = ProcessExited(0, 0, 0, 7, 0, None, 4.06, first_failure=False, oom_killed=False)
BEGIN = GenerationStarted(0, 0)


def start(rank: int, log: str = "/logs") -> ProcessStarted:
    return ProcessStarted(rank, rank, 0, 810 + rank, f"{log}/rank-{rank}.txt")


class Told:
    """A Joiner and the sentences that it has passed on."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.joiner = Joiner(lambda event: self.sentences.append(event.msg))

    def tell(self, *events: Event) -> list[str]:
        for event in events:
            self.joiner.report(event)
        return self.sentences


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((3,), "3"),
        ((0, 1), "0, 1"),
        (range(8), "0 to 7"),
        ((9, 2, 0, 1, 5), "0 to 2, 5, 9"),
    ],
)
def test_numbers_in_a_row_are_a_span(numbers, text):
    assert spans(numbers) == text


def test_starts_of_ranks_are_one_sentence():
    assert joined([start(rank) for rank in range(8)]).msg == (
        "ranks 0 to 7 started (processes 810 to 817); their logs are in /logs"
    )
    assert joined([start(0), start(1, "/elsewhere")]).msg == (
        "ranks 0, 1 started (processes 810, 811); each has its own log"
    )


@pytest.mark.parametrize(
    ("status", "signal", "longest", "text"),
    [
        (0, None, 4.09, "ranks 0 to 2 exited with status 0 after 4.1 s"),
        (1, None, 9.0, "ranks 0 to 2 exited with status 1 after 4.1 to 9.0 s"),
        (None, "SIGTERM", 4.1, "ranks 0 to 2 were killed by SIGTERM after 4.1 s"),
    ],
)
def test_ends_of_ranks_are_one_sentence(status, signal, longest, text):
    ends = [
        replace(EXIT, rank=rank, status=status, signal=signal, runtime_seconds=seconds)
        for rank, seconds in enumerate((4.06, 4.07, longest))
    ]
    assert joined(ends).msg == text


@pytest.mark.parametrize(
    "event",
    [
        replace(EXIT, first_failure=True),
        replace(EXIT, oom_killed=True),
        replace(EXIT, rank=None, program="torchrun"),
        replace(start(0), rank=None, program="torchrun"),
        BEGIN,
    ],
)
def test_what_matters_by_itself_is_joined_with_nothing(event):
    assert kind_of(event) is None


async def test_like_events_wait_for_each_other_and_others_come_after_them():
    told = Told()
    assert told.tell(BEGIN, start(0), start(1)) == [BEGIN.msg]
    assert told.tell(EXIT) == [BEGIN.msg, joined([start(0), start(1)]).msg]
    other = replace(EXIT, rank=1, status=1)
    assert told.tell(other)[2:] == [EXIT.msg]
    assert told.tell(BEGIN)[3:] == [other.msg, BEGIN.msg]


async def test_what_waits_is_told_soon_by_itself():
    told = Told()
    told.tell(start(0), start(1))
    with anyio.fail_after(DEADLINE_SECONDS):
        while not told.sentences:
            await anyio.sleep(0.01)
    assert told.tell(start(2), BEGIN) == [
        joined([start(0), start(1)]).msg,
        start(2).msg,
        BEGIN.msg,
    ]


async def test_a_start_is_told_before_output_and_an_end_may_wait():
    told = Told()
    told.tell(start(0))
    told.joiner.tell_starts()
    assert told.sentences == [start(0).msg]
    told.tell(EXIT)
    told.joiner.tell_starts()
    assert told.sentences == [start(0).msg]
    told.tell(BEGIN)
