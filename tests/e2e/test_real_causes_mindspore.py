"""Ranks that really fail with MindSpore, and the cause that the events of their job tell."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import pytest

from tests.jobs.failing_ranks import Failing, mistold

pytestmark = [
    pytest.mark.e2e_mindspore,
    pytest.mark.timeout(300),
    # Only looked for: the ranks import it, and the tests' own process need not.
    pytest.mark.skipif(
        importlib.util.find_spec("mindspore") is None, reason="MindSpore is not installed"
    ),
]
SAVED = "ms.save_checkpoint(nn.Dense(3, 2), path)"


def with_mindspore(then: str, device: str = "CPU") -> str:
    return f"""
import os, mindspore as ms
from mindspore import nn
path = __file__ + ".ckpt"
ms.set_device("{device}")
{then}
"""


GENERATED = "list(ms.dataset.GeneratorDataset(lambda: ({}[i] for i in range(2)), ['x']))"
OF_MINDSPORE: Sequence[Failing] = (
    ("cann-library-missing", with_mindspore("", "Ascend")),
    ("device-target-gpu", with_mindspore("", "GPU")),
    (
        "ckpt-unreadable",
        with_mindspore(f"{SAVED}; os.truncate(path, 50); ms.load_checkpoint(path)"),
    ),
    (
        "checkpoint-shape-mismatch",
        with_mindspore(
            f"{SAVED}; ms.load_param_into_net(nn.Dense(2, 2), ms.load_checkpoint(path))"
        ),
    ),
    ("tensor-shapes", with_mindspore("x = ms.ops.ones((2, 3)); print(ms.ops.matmul(x, x))")),
    ("dataset-user-function-failed", with_mindspore(GENERATED)),
    ("dataset-folder-missing", with_mindspore("list(ms.dataset.ImageFolderDataset('/data/none'))")),
    ("file-missing", with_mindspore("ms.load_checkpoint('/data/none.ckpt')")),
)


def test_a_rank_that_really_fails_with_mindspore_has_its_cause(supervised, tmp_path):
    assert mistold(supervised, tmp_path, OF_MINDSPORE, deadline=280.0) == []
