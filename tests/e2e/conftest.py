"""A training in which nothing happens, once for all that are compared with it."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.training import begun, digests, ended, train
from tests.running import Running


@pytest.fixture(scope="session")
def undisturbed_digests(tmp_path_factory, worker_id) -> list[str]:
    """What every rank's parameters are in the end; the workers of a run train only once."""
    made: Path = tmp_path_factory.getbasetemp()
    kept = (made if worker_id == "master" else made.parent) / "undisturbed.json"
    with kept.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not kept.stat().st_size:
            file.write(json.dumps(_trained(tmp_path_factory.mktemp("undisturbed"))))
            file.flush()
        return list(json.loads(kept.read_text()))


def _trained(root: Path) -> list[str]:
    def supervised(*arguments: str, **options: Any) -> Running:
        return Running(options.pop("root"), *arguments, **options)

    job = train(supervised, root)
    try:
        assert ended(job) == 0
        assert begun(job, 0) == ["generation 0 of 2 ranks begins at step 0"] * 2
        assert not job.survivors()
    finally:
        job.kill()
    found = digests(job, 0)
    assert len(set(found)) == 1
    return found
