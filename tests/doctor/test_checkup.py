"""Checks side by side: one that is late or fails holds nobody up, and says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import anyio
import pytest

from ascend_supervisor.doctor.check import ThisServer, fit, unfit, unknown, verdict_of, warning
from ascend_supervisor.doctor.checks import Check, ProgramCheck, checkup
from ascend_supervisor.events.server import Result
from ascend_supervisor.processes.program_output import ProgramOutput
from tests.doctor.servers import server

SAYS = ProgramOutput(b"Health : OK\n")


async def ask(words):
    return SAYS


Look = Callable[[ThisServer], Iterable[Result]]


def check(subject: str, look: Look | None = None) -> Check:
    return Check(subject, look or (lambda _: [fit(subject, "it")]))


async def test_rows_come_in_the_order_of_the_checks_whichever_ends_first(tmp_path):
    second = threading.Event()

    def waits(_):
        assert second.wait(20)
        return [fit("first", "it")]

    def comes(_):
        second.set()
        return [fit("second", "a"), fit("second", "b")]

    with anyio.fail_after(30):
        rows = await checkup(server(tmp_path), (check("first", waits), check("2", comes)), ask)
    assert [row.subject for row in rows] == ["first", "second", "second"]


async def test_a_file_system_that_does_not_answer_is_not_waited_for(tmp_path):
    never = threading.Event()

    def hangs(_):
        never.wait(60)
        return []

    began = time.monotonic()
    rows = await checkup(server(tmp_path), (check("log", hangs), check("b")), ask, seconds=0.2)
    never.set()
    assert time.monotonic() - began < 20
    assert rows == (
        unknown("log", "its file system has not answered within 0.2 s"),
        fit("b", "it"),
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(5, "Input/output error"), "it cannot be looked at: Input/output error"),
        (ValueError("odd"), "a defect of this check, please report it: ValueError('odd')"),
    ],
)
async def test_a_check_that_fails_is_unknown(tmp_path, error, reason):
    def fails(_):
        yield fit("a", "it")
        raise error

    assert await checkup(server(tmp_path), (check("a", fails),), ask) == (unknown("a", reason),)


async def test_a_check_gets_the_answers_of_programs(tmp_path):
    async def asks(_, ask):
        return [fit("npu", (await ask(("npu-smi",))).text.decode())]

    found = await checkup(server(tmp_path), (ProgramCheck("npu", asks),), ask)
    assert found == (fit("npu", "Health : OK\n"),)


def test_the_worst_row_is_the_verdict():
    rows = [fit("a", "b"), unknown("a", "b"), warning("a", "b", "c", "d"), unfit("a", *"bcd")]
    assert [verdict_of(rows[:end]) for end in range(1, 5)] == ["fit", "unknown", "warning", "unfit"]
