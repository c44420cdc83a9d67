"""How the stacks of hung ranks are taken, as --hang-dump says it."""

from __future__ import annotations

from signal import Signals

import pytest

from ascend_supervisor.settings.precedence import Settings, read_settings
from ascend_supervisor.settings.readers import HangDump, read_hang_dump


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("auto", "auto"), ("pyspy", "pyspy"), (" None ", "none")),
        *(("SIGUSR1", Signals.SIGUSR1), ("usr2", Signals.SIGUSR2), ("SIGQUIT", Signals.SIGQUIT)),
    ],
)
def test_a_way_or_a_signal(text: str, value: HangDump) -> None:
    assert read_hang_dump(text) == value


@pytest.mark.parametrize("text", ["", "gdb", "SIGKILL", "SIGTERM", "10", 10, True])
def test_what_is_neither_is_refused_and_no_signal_that_ends_ranks_is_taken(text: object) -> None:
    with pytest.raises(ValueError, match="auto, pyspy, none, or one of the signals SIGUSR1"):
        read_hang_dump(text)


@pytest.mark.parametrize(("text", "told"), [("usr1", "SIGUSR1"), ("pyspy", "pyspy")])
def test_the_first_event_says_it_by_name(text: str, told: str) -> None:
    read = read_settings(("--hang-dump", text, "--", "true"), {}, lambda _: b"")
    assert isinstance(read, Settings)
    assert read.non_defaults == (f"hang-dump={told} (command line)",)
