"""The programs beside which this supervisor is measured: pip installs them into .venvs/compare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BIN = Path(__file__).resolve().parents[1] / ".venvs" / "compare" / "bin"


def install(package: str, program: str) -> Path:
    """The path of ``program``; nothing is there if ``package`` cannot be installed."""
    if not (BIN / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", BIN.parent], check=True)
    if not (BIN / program).exists():
        pip = (sys.executable, "-m", "pip", "--python", str(BIN / "python"), "install", "-qq")
        subprocess.run([*pip, "--no-input", package], check=False)
    return BIN / program
