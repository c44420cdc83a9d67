"""A training in which nothing happens, once for all that are compared with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.training import begun, digests, ended, train
from tests.running import Running


@pytest.fixture(scope="session")
def undisturbed_digests(tmp_path_factory) -> list[str]:
    """What every rank's parameters are in the end."""

    def supervised(*arguments: str, **options: Any) -> Running:
        return Running(options.pop("root"), *arguments, **options)

    job = train(supervised, tmp_path_factory.mktemp("undisturbed"))
    try:
        assert ended(job) == 0
        assert begun(job, 0) == ["generation 0 of 4 ranks begins at step 0"] * 4
        assert not job.survivors()
    finally:
        job.kill()
    found = digests(job, 0)
    assert len(set(found)) == 1
    return found
