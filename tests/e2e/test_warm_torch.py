"""Programs of torch are the same warm as cold: errors of @record, workers of a DataLoader."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.workers.standbys.warming import Warm, alike, cold

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]

ENVIRON = {
    "PATH": os.environ["PATH"],
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
    "RANK": "1",
}
RECORDS = """
import sys
from torch.distributed.elastic.multiprocessing.errors import record
class Broken(Exception): pass
@record
def main():
    if "exit" in sys.argv:
        sys.exit(3)
    raise Broken("told")
if __name__ == "__main__":
    main()
"""
LOADS = """
import os, sys
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
class Squares(Dataset):
    def __len__(self): return 8
    def __getitem__(self, n):
        if "fail" in sys.argv: raise ValueError(n)
        return n * n, get_worker_info().id, os.environ["RANK"], torch.initial_seed()
def begin(worker): torch.manual_seed(worker)
if __name__ == "__main__":
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, persistent_workers=True,
        multiprocessing_context=sys.argv[1], worker_init_fn=begin)
    for _ in range(2):
        print(list(loader))
"""


@pytest.mark.parametrize("word", ["exit", "raise"])
def test_record_writes_the_same_error_file(word, tmp_path):
    """Where the word says, which names the generation."""
    (tmp_path / "script.py").write_text(RECORDS)
    words = ["script.py", word]
    environs = [
        {**ENVIRON, "TORCHELASTIC_ERROR_FILE": str(tmp_path / f"{name}.json")}
        for name in ("cold", "before", "warm")
    ]
    expected = cold(words, environs[0], tmp_path)
    process = Warm(words, environs[1], tmp_path)
    assert process.told()["refused"] is None
    assert process.go(environs[2], tmp_path) == expected
    assert expected[0] == (3 if word == "exit" else 1)
    assert error(tmp_path / "warm.json") == error(tmp_path / "cold.json")
    assert (tmp_path / "warm.json").exists() == (word == "raise")
    assert not (tmp_path / "before.json").exists()


def error(file: Path) -> dict[str, Any] | None:
    """What @record has written, but for the time; None if it has not."""
    if not file.exists():
        return None
    found = dict(json.loads(file.read_text())["message"])
    found["extraInfo"].pop("timestamp")
    return found


@pytest.mark.parametrize("words", [["fork"], ["spawn"], ["fork", "fail"]], ids=" ".join)
def test_a_loader_with_workers_loads_the_same(words, tmp_path):
    (tmp_path / "script.py").write_text(LOADS)
    status, told = alike(["script.py", *words], ENVIRON, tmp_path)
    assert status == int("fail" in words)
    assert "in DataLoader worker process" in told if status else "tensor([4, 9])" in told
