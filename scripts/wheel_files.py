"""Makes what only a wheel has, completion and man pages, while it is built."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShellFiles(BuildHookInterface[Any]):
    """What hatchling calls; ``_made`` is removed with it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path[:0] = [self.root, str(Path(self.root, "scripts"))]
        from shell_files import write  # noqa: PLC0415  (it is found only now)

        self._made = TemporaryDirectory()
        write(Path(self._made.name))
        build_data["shared_data"][self._made.name] = "share"
