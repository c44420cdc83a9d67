#!/usr/bin/env python3
"""Completion for bash and zsh and the man pages of our programs, as they are installed.

    .venv/bin/python scripts/shell_files.py DIRECTORY

They are written below DIRECTORY as below /usr/share; a wheel gets them when it is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import man_pages
import shell_completion

FILES = {
    "bash-completion/completions/ascend-supervisor": shell_completion.bash,
    "bash-completion/completions/ascend-supervisorctl": shell_completion.bash_ctl,
    "zsh/site-functions/_ascend-supervisor": shell_completion.zsh,
    "man/man1/ascend-supervisor.1": man_pages.supervisor,
    "man/man1/ascend-supervisorctl.1": man_pages.ctl,
}


def write(directory: Path) -> None:
    for name, text in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
