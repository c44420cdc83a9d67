"""Durations and sizes in few characters, for people; pure."""

from __future__ import annotations

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def duration(seconds: float) -> str:
    """Its two largest units: ``2 h 10 min``, ``45 s``; less than a second is ``0 s``."""
    left = max(int(seconds), 0)
    parts = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        parts.append((count, unit))
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"


def size(number: float) -> str:
    """Bytes with a unit of 1024: ``312 B``, ``1.2 MiB``."""
    unit = 0
    while number >= _STEP and unit < len(_SIZES) - 1:
        number /= _STEP
        unit += 1
    return f"{number:.1f} {_SIZES[unit]}" if unit else f"{number:.0f} {_SIZES[0]}"
