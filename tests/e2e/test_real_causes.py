"""Ranks that really fail with PyTorch, and the cause that the events of their job tell."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

import pytest

from tests.jobs.failing_ranks import Failing, mistold, on_a_disk
from tests.ports import free_port
from tests.running import python

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    # Only looked for: the ranks import it, and the tests' own process need not.
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]
RUN_SECONDS = 380.0
ENVIRON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}

POINTER = "version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize 9\\n"


def with_torch(then: str) -> str:
    return f"import os, torch\nfrom torch import nn\npath = __file__ + '.pt'\n{then}"


def loading(then: str) -> str:
    """What a worker of a DataLoader does for each sample."""
    return f"""
import os, signal, torch
class Samples:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        {then}
list(torch.utils.data.DataLoader(Samples(), num_workers=1))
"""


def meeting(then: str, is_first: str) -> str:
    """Of two ranks one comes to the rendezvous."""
    return f"""
import datetime, socket, torch.distributed as dist
one, host = socket.create_server(("127.0.0.1", 0)), "127.0.0.1"
{then}
dist.TCPStore(host, port, 2, {is_first}, datetime.timedelta(seconds=2))
"""


OF_TORCH: Sequence[Failing] = (
    ("tensor-shapes", with_torch("torch.ones(2, 3) @ torch.ones(2, 3)")),
    ("state-dict-keys", with_torch("nn.Linear(2, 2).load_state_dict({})")),
    (
        "state-dict-shapes",
        with_torch("nn.Linear(2, 2).load_state_dict(nn.Linear(3, 2).state_dict())"),
    ),
    ("cuda-missing", with_torch("torch.ones(1).cuda()")),
    ("npu-plugin-missing", with_torch("torch.ones(1, device='npu:0')")),
    (
        "checkpoint-damaged",
        with_torch(
            "torch.save(torch.ones(9 << 20), path); os.truncate(path, 9 << 20)\ntorch.load(path)"
        ),
    ),
    ("git-lfs-pointer", with_torch(f"open(path, 'w').write('{POINTER}')\ntorch.load(path)")),
    (
        "safetensors-damaged",
        with_torch(
            "from safetensors.torch import load_file, save_file\n"
            "save_file({'x': torch.ones(9999)}, path); os.truncate(path, 999); load_file(path)"
        ),
    ),
    ("host-out-of-memory", with_torch("torch.empty(1 << 46)")),
    ("dataloader-worker-killed", loading("os.kill(os.getpid(), signal.SIGKILL)")),
    ("key-missing", loading("return {}['label']")),
    ("port-taken", meeting("port = one.getsockname()[1]", "True")),
)
OF_MEETING: Sequence[Failing] = (
    ("name-unknown", meeting("host, port = 'job-0.invalid', 29500", "False")),
    ("no-rendezvous", meeting("port = one.getsockname()[1]; one.close()", "False")),
    ("no-rendezvous", meeting("port = 0", "True")),
)
OF_A_BAD_MACHINE: Sequence[Failing] = (
    ("shared-memory-full", on_a_disk("/dev/shm", loading("return torch.ones(1 << 20)"))),
    ("disk-full", on_a_disk("/mnt", with_torch("torch.save(torch.ones(1 << 20), '/mnt/x.pt')"))),
)


def test_a_rank_that_really_fails_with_torch_has_its_cause(supervised, tmp_path):
    told = mistold(supervised, tmp_path, OF_TORCH, deadline=RUN_SECONDS, environ=ENVIRON)
    assert told == []


@pytest.mark.skipif(os.geteuid() != 0, reason="a bad machine is made by root")
def test_a_rank_with_torch_on_a_bad_machine_has_its_cause(supervised, tmp_path):
    before = ("unshare", "--mount")
    failing = OF_A_BAD_MACHINE
    assert mistold(supervised, tmp_path, failing, *before, deadline=RUN_SECONDS) == []


def test_a_rank_that_does_not_meet_the_others_has_its_cause(supervised, tmp_path):
    assert mistold(supervised, tmp_path, OF_MEETING, peers=1, deadline=RUN_SECONDS) == []


MEET = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(4)
dist.all_reduce(total)
{}
while True:
    dist.all_reduce(total)
"""


def test_what_ended_one_rank_is_the_cause_and_not_that_the_others_lost_it(supervised):
    fails = "{'lr': 1}['learning_rate'] if dist.get_rank() else None"
    words = ("--standalone", "2", "--master-port", str(free_port()), "--drain", "20")
    job = supervised(*words, *python(MEET.format(fails)), deadline=RUN_SECONDS, environ=ENVIRON)
    assert job.end() in {1, 134}  # gloo's threads may abort the rank while its Python ends
    (known,) = (event["diagnosis"] for event in job.all("generation.ended"))
    assert (known["id"], known["rank"], known["is_consequence"]) == ("key-missing", 1, False)
    assert any("Connection closed by peer" in line for line in job.said(0))
