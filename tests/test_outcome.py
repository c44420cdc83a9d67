"""How things end, as values: exit codes, names and sentences."""

from __future__ import annotations

from signal import Signals

import pytest

from ascend_supervisor.outcome import Completed, ExitStatus, signal_name


@pytest.mark.parametrize(
    ("status", "ok", "exit_code", "name", "words"),
    [
        (ExitStatus(0), True, 0, None, "exited with status 0"),
        (ExitStatus(1), False, 1, None, "exited with status 1"),
        (ExitStatus(255), False, 255, None, "exited with status 255"),
        (ExitStatus(None, 9), False, 137, "SIGKILL", "was killed by SIGKILL"),
        (ExitStatus(None, 15), False, 143, "SIGTERM", "was killed by SIGTERM"),
        (ExitStatus(None, 40), False, 168, "signal 40", "was killed by signal 40"),
    ],
)
def test_an_exit_status_tells_one_thing_in_every_form(
    status: ExitStatus, ok: bool, exit_code: int, name: str | None, words: str
) -> None:
    told = (status.ok, status.exit_code, status.signal_name, str(status))
    assert told == (ok, exit_code, name, words)


def test_a_death_by_signal_is_never_ok_and_gives_128_more() -> None:
    dead = [ExitStatus(None, number) for number in range(1, 65)]
    assert not any(status.ok for status in dead)
    assert [status.exit_code for status in dead] == list(range(129, 193))


def test_a_signal_has_its_own_name() -> None:
    assert [signal_name(number) for number in Signals] == [number.name for number in Signals]


def test_statuses_that_are_alike_are_equal_and_others_are_not() -> None:
    assert ExitStatus(9) == ExitStatus(9)
    assert ExitStatus(9) != ExitStatus(None, 9)
    assert ExitStatus(137) != ExitStatus(None, 9)


def test_an_outcome_cannot_be_changed() -> None:
    with pytest.raises((AttributeError, TypeError)):
        Completed().anything = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        ExitStatus(1).status = 0  # type: ignore[misc]
