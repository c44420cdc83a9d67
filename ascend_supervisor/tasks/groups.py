"""The exceptions of a task group, without the group around them."""

from __future__ import annotations


def innermost(error: Exception) -> Exception:
    """The first exception in ``error``, in groups of groups too; ``error`` if it is no group."""
    while inside := getattr(error, "exceptions", ()):
        error = inside[0]
    return error
