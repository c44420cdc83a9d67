"""The examples of docs/hangs.md are run as they are printed; and a client that many use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.notify_socket.hearing import Hearing
from tests.test_docs import between, page

AROUND = {
    "pytorch": (
        """\
class Loss(float):
    def item(self): return float(self)
def train_step(batch): return Loss(batch)
loader = [4, 2, 1]
""",
        "",
    ),
    "mindspore": (
        """\
import types
class Context:
    def __init__(self, step): self.step = step
    def original_args(self): return types.SimpleNamespace(cur_step_num=self.step)
class Model:
    def train(self, epochs, dataset, callbacks):
        for step in dataset:
            for callback in callbacks: callback.on_train_step_end(Context(step))
model, dataset = Model(), [1, 2]
train = types.ModuleType("mindspore.train")
train.Callback = object
sys.modules.setdefault("mindspore", types.ModuleType("mindspore"))
sys.modules["mindspore.train"] = train
""",
        "",
    ),
    "plain": ("", "notify('WATCHDOG=1\\nSTATUS=plain')\n"),
}
"""What stands before and after an example in a program; no framework is needed to run it."""


def example(name: str) -> str:
    block = between(page("docs/hangs.md"), name)
    assert block.startswith("```python\n")
    return block.removeprefix("```python\n").removesuffix("```\n")


@pytest.mark.parametrize(
    ("name", "status"),
    [("pytorch", "step 2, loss 1.000"), ("mindspore", "step 2"), ("plain", "plain")],
)
@pytest.mark.parametrize("place", ["file", "abstract name"])
async def test_an_example_is_heard(stage, name, status, place):
    if place == "abstract name":
        (stage.root / "state.json.notify").touch()
    before, after = AROUND[name]
    async with Hearing(stage).listening() as hearing:
        assert (hearing.variables["NOTIFY_SOCKET"][0] == "@") == (place == "abstract name")
        spec = hearing.rank(0, before + example(name) + after)
        await hearing.until(lambda: hearing.status(0) == status, spec)
    assert hearing.life.notified[0].watchdog_at is not None


def test_every_example_of_the_page_is_run():
    assert page("docs/hangs.md").partition("\n### ")[0].count("```python\n") == len(AROUND)


@pytest.mark.parametrize("name", ["pytorch", "mindspore"])
def test_without_a_supervisor_an_example_changes_nothing(name):
    environ = {key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"}
    source = "import sys\n" + AROUND[name][0] + example(name)
    done = subprocess.run(
        [sys.executable, "-c", source], env=environ, check=False, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
