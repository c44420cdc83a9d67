"""Lines with carriage returns: the last piece of each is visible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.output.text_lines import needed, visible

WRITTEN = st.lists(st.sampled_from([b"a", b"bc", b" ", b"\r", b"\n", b"\r\n"])).map(b"".join)


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (b"", b""),
        (b"plain\n", b"plain\n"),
        (b"CR LF\r\n", b"CR LF\n"),
        (b"CR CR LF\r\r\n", b"CR CR LF\n"),
        (b"\r 10%\r 20%\n", b" 20%\n"),
        (b"\r 10%\r 20%\r\n", b" 20%\n"),
        (b"first\n\r 10%\r 20%", b"first\n 20%"),
        (b"\r\n\r\n", b"\n\n"),
    ],
)
def test_the_last_piece_of_a_line_is_visible(written, seen):
    assert visible(written) == seen


@given(begun=WRITTEN.map(lambda data: data.replace(b"\n", b"")), following=WRITTEN)
def test_what_is_kept_of_a_line_that_goes_on_is_enough(begun, following):
    assert visible(needed(begun) + following) == visible(begun + following)


def test_of_a_long_progress_bar_little_is_kept():
    assert needed(b"\r 50% [###   ]" * 9999) == b" 50% [###   ]"
