"""Interpreters that have only the packages that a test wants, whatever is installed here."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def interpreter(place: Path, *packages: str, before: str = "") -> str:
    """A Python with these packages, which hold nothing; ``before`` is run by a shell."""
    for package in packages:
        (place / "packages" / package).mkdir(parents=True)
        (place / "packages" / package / "__init__.py").touch()
    program = place / "python"
    python = f"PYTHONPATH={shlex.quote(f'{place}/packages')} exec {sys.executable} -S"
    program.write_text(f'#!/bin/sh\n{before}\n{python} "$@"\n')
    program.chmod(0o755)
    return str(program)
