"""Stands for torch in scripts/demo: to import it takes some tenths of a second of CPU time.

It defines its operations one by one, as frameworks do when they are imported; nobody calls them.
"""

from __future__ import annotations

from dataclasses import make_dataclass

OPERATIONS = [
    make_dataclass(f"Operation{number}", ("input", "weight", "bias"), frozen=True)
    for number in range(500)
]
