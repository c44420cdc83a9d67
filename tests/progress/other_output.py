"""What else a job prints: compilers, packages, downloads, data, communication; always the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice


def lines(count: int) -> Iterator[bytes]:
    """``count`` records, some of which are bars that end with a carriage return."""
    return islice(_lines(), count)


def _lines() -> Iterator[bytes]:
    number = 0
    while True:
        for one in _KINDS:
            yield one(number).encode()
        number += 1


def _bar(label: str, number: int, total: int, rate: str) -> str:
    at = number % (total + 1)
    return f"\r{label}{at * 100 // total:3d}%|{'█' * 5}     | {at}/{total} [00:07<00:47, {rate}]"


_KINDS: tuple[Callable[[int], str], ...] = (
    lambda n: f"[{n % 100:3d}%] Building CXX object src/CMakeFiles/ops.dir/op_{n}.cpp.o\n",
    lambda n: f"[{n % 777}/777] Linking CXX shared library libops.so\n",
    lambda n: f"gcc -O2 -g -fPIC -c src/step_{n}.c -o build/iteration_{n}.o epoch.c\n",
    lambda n: f"Step {n % 17}/17 : RUN pip install -r requirements.txt\n",
    lambda n: f"#12 [{n % 9}/9] COPY train.py /app step 3/4\n",
    lambda n: f"Downloading torch-2.{n % 9}.0-cp311-cp311-manylinux_2_28_aarch64.whl (102.1 MB)\n",
    lambda n: f"\r     ━━━━━━━━━━━━━━━━━━━━━━━━━ {n % 800}.3/800.1 MB 5.2 MB/s eta 0:02:31",
    lambda n: f"Get:{n} http://deb.debian.org/debian trixie/main arm64 pkg{n} [12.3 kB]\n",
    lambda n: f"\rProgress: [{n % 100:3d}%] [{'#' * (n % 50):50}] ",
    lambda n: f"Unpacking libfoo{n}:arm64 (1.{n}-1) ... (Reading database ... {n % 100}%)\n",
    lambda n: f"\rReceiving objects: {n % 100:3d}% ({n % 9999}/9999), 12.30 MiB | 1.20 MiB/s",
    lambda n: f"\rmodel.bin  {n % 100:3d}%[=====>      ] {n:,}  1.20MB/s  eta 3s",
    lambda n: _bar("Map: ", n, 5000, "812.3 examples/s"),
    lambda n: _bar("Map (num_proc=8): ", n, 5000, "12.3 examples/s"),
    lambda n: _bar("Tokenizing train dataset: ", n, 300, "12.3it/s"),
    lambda n: _bar("Loading checkpoint shards: ", n, 30, "1.20s/it"),
    lambda n: _bar("Fetching 30 files: ", n, 30, "3.20it/s"),
    lambda n: _bar("Loading train data: ", n, 99, "3.20it/s"),
    lambda n: _bar("Evaluating: ", n, 250, "7.20it/s"),
    lambda n: _bar("Validation DataLoader 0: ", n, 25, "7.20it/s"),
    lambda n: _bar("model-00001-of-00030.safetensors: ", n, 4999, "41.2MB/s"),
    lambda n: _bar("", n, 4096, "12345.67it/s"),
    lambda n: _bar("", n, 512, "12.3MB/s"),
    lambda n: _bar("Running tokenizer on train steps: ", n, 512, "12.3it/s"),
    lambda n: f"\rGenerating train split: {n} examples [00:01, 800.00 examples/s]",
    lambda n: f"Loading safetensors checkpoint shards:  {n % 100}% Completed | {n % 4}/4\n",
    lambda n: f"Processed {n}00 documents (123.4 docs/s, 12.3 MB/s).\n",
    lambda n: f"INFO: shard {n % 64}/64 done, 12/345 steps of the pipeline left\n",
    lambda n: f"node1:{n}:{n + 7} [{n % 8}] NCCL INFO Channel {n % 32:02d}/32 : 0 1 2 3 4 5 6 7\n",
    lambda n: f"[INFO] HCCL({n},python3):2026-11-24-10:00:00.123.456 [timeout]1800/1800 step {n}\n",
    lambda n: f"[EVENT] RUNTIME({n},python3):2026-11-24 [runtime.cc:{n}] iteration {n % 9}/9\n",
    lambda n: f"[WARNING] TBE({n},python3) compile op {n % 512}/512, 64/512 cores, {n % 100}%\n",
    lambda n: f"Warning: graph compile iteration {n} of 3, epoch {n} is not cached\n",
    lambda n: f"  train_iters ................................ {n}\n",
    lambda n: f"  --max_steps {n} --num_train_epochs 3 --save_steps 100 --step={n}\n",
    lambda n: f"11/24/2026 10:00:{n % 60:02d} - INFO - __main__ - args: epoch={n}, iter={n}/9\n",
    lambda n: f"tests/test_{n}.py ......................... [{n % 100:3d}%]\n",
    lambda n: f"Retrying ({n % 5}/5) in 3 s: step {n % 3}/3 failed, loss of link\n",
    lambda n: f"sync start grpo training at iteration: {n}/1000 ...\n",
    lambda n: f"removing checkpoints: checkpoint-{n}, state of step {n}/900\n",
    lambda n: f"编译进度 {n % 100}%，第 {n}/9999 个算子\n",
)
