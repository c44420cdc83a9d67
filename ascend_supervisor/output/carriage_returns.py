r"""What a terminal shows of lines with carriage returns: the last piece of each; pure.

A progress bar writes ``\r 45%|####`` again and again, and ends its line only once.
"""

from __future__ import annotations


def visible(lines: bytes) -> bytes:
    """``lines`` without the pieces that others were written over; CR LF becomes LF."""
    if b"\r" not in lines:
        return lines
    return b"\n".join(map(_last_piece, lines.split(b"\n")))


def needed(begun: bytes) -> bytes:
    """What must be kept of a line that goes on, so that ``visible`` says the same of the whole."""
    bare = begun.rstrip(b"\r")
    return _last_piece(bare) + (b"\r" if bare != begun else b"")


def _last_piece(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]
