"""An image in which the commands of the pages run, and a rank table for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rank_tables import WITHOUT_ADDRESSES, data
from tests.readme.image import Image
from tests.running import Running


@pytest.fixture
def image(tmp_path: Path, supervised: Callable[..., Running]) -> Image:
    made = Image(tmp_path, supervised)
    made.with_programs("opt/ascend-supervisor")
    return made


@pytest.fixture
def with_table(image: Image) -> dict[str, str]:
    """Variables of a pod that is the whole job; its rank table has the ranks 0 to 3."""
    image.with_file("config/hccl.json", data(WITHOUT_ADDRESSES).decode())
    return {"RANK_TABLE_FILE": str(image.root / "config" / "hccl.json")}
