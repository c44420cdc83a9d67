"""Who gets colours."""

from __future__ import annotations

import pytest

from ascend_supervisor.output.terminal import terminal_of


@pytest.mark.parametrize(
    ("color", "environ", "on_terminal", "elsewhere"),
    [
        ("auto", {"TERM": "xterm"}, True, False),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {}, False, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True, False),
        ("always", {"NO_COLOR": "1"}, True, True),
        ("never", {"TERM": "xterm"}, False, False),
    ],
)
def test_colours_are_for_terminals_unless_somebody_says_otherwise(
    color, environ, on_terminal, elsewhere
):
    terminal = terminal_of(environ, color)
    assert terminal.has_colours(is_terminal=True) is on_terminal
    assert terminal.has_colours(is_terminal=False) is elsewhere
