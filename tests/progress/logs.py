"""Logs of training frameworks as they would be written, with the truth about each record.

Each has two lives: the first crashes, the second resumes from the last checkpoint. Between the
steps stand warnings, evaluations, bars of other work and dumps, which tell no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

NOISE = (
    "/usr/lib/python3.11/site-packages/torch/utils/data/sampler.py:76: Warning: step 3/7 of 9\n",
    "[W1124 10:00:00.123456 compiler_depend.ts:51] Warning: CAUTION: iteration 512/512 ready\n",
    "[INFO] HCCL(123,python):2026-11-24-10:00:00 [timeout] notify wait 1800/1800 s, step 1/4\n",
    "  train_iters ..................................... 5000\n",
    "  world size .............. 16 at 11/24/2026, 64/512 cores, epoch 5 of many\n",
    "\rLoading checkpoint shards: 100%|██████████| 5/5 [00:01<00:00,  4.00it/s]\n",
    "\rMap (num_proc=8):  50%|█████     | 500/1000 [00:01<00:01, 400.00 examples/s]\n",
    "开始训练，第 3/10 轮 — 中文日志 \xff\n",
)
CRASH = (
    "Traceback (most recent call last):\n",
    '  File "train.py", line 512, in step\n',
    "RuntimeError: NPU out of memory at step 99999, 1/8\n",
)


@dataclass(frozen=True)
class Truth:
    """What is known once a record is complete."""

    step: int | None = None
    steps: int | None = None
    checkpoint: int | None = None
    resumed: int | None = None


@dataclass
class Log:
    """Records, each with what it tells; ``late`` are steps that need not be known at once."""

    records: list[tuple[bytes, Truth]] = field(default_factory=list)
    _noise: int = 0

    def say(self, text: str, **told: int | None) -> None:
        self.records.append((text.encode("utf-8", "surrogateescape"), Truth(**told)))

    def noise(self) -> None:
        self._noise += 1
        self.say(NOISE[self._noise % len(NOISE)])

    def crash(self) -> None:
        for line in CRASH:
            self.say(line)


def tqdm(count: int, total: int, label: str = "", postfix: str = "") -> str:
    tenths = count * 10 // total
    drawn = "█" * tenths + " " * (10 - tenths)
    rate = " 7.57it/s" if count else "?it/s"
    left = "00:47" if count else "?"
    return (
        f"\r{label}{count * 100 // total:3d}%|{drawn}| {count}/{total} "
        f"[00:07<{left}, {rate}{postfix}]"
    )


Lives = tuple[tuple[int, int], ...]
LIVES: Lives = ((0, 57), (40, 100))
"""The steps before the first one and of the last one of each life."""
EVERY = 20
"""Steps between checkpoints."""


def _lives(log: Log) -> Iterator[tuple[int, int, bool]]:
    for number, (start, end) in enumerate(LIVES):
        for _ in NOISE:
            log.noise()
        yield start, end, number > 0
        if number == 0:
            log.crash()


def megatron(log: Log) -> None:
    for start, end, resumes in _lives(log):
        if resumes:
            log.say(" loading distributed checkpoint from /ckpt at iteration 40\n")
            log.say(
                "  successfully loaded checkpoint from /ckpt [ t 1/4, p 1/2 ] at iteration 40\n",
                resumed=40,
            )
        for step in range(start + 1, end + 1):
            log.say(
                f" [2026-08-22 10:00:00.123456] iteration {step:8d}/{100:8d} | consumed samples: "
                f"{step * 16:12d} | elapsed time per iteration (ms): 126.3 | learning rate: "
                f"1.36E-05 | global batch size:    16 | lm loss: 2.382640E+00 | grad norm: nan |\n",
                step=step,
                steps=100,
            )
            if step % EVERY == 0:
                for at in range(1, 4):
                    log.say(f"Evaluating iter {at}/3\n")
                log.say(f" validation loss at iteration {step} | lm loss value: 2.0E+00 | \n")
                log.say(f"[t] saving checkpoint at iteration {step:7d} to /ckpt in torch_dist\n")
                log.say(
                    f"  [t] successfully saved checkpoint from iteration {step:7d} to /ckpt "
                    "[ t 1/4, gtp_remat 1/1, p 1/2 ]\n",
                    checkpoint=step,
                )
            if step % 9 == 0:
                log.noise()


def fsdp2(log: Log) -> None:
    for start, end, resumes in _lives(log):
        log.say("INFO [2026-06-22 19:25:38] >>   Total optimization steps = 100\n", steps=100)
        if resumes:
            log.say("INFO >> Load distributed checkpoint from out successfully!\n")
            log.say("INFO >> Resuming from epoch 0, step 7\n")
            log.say("INFO >> Global step = 40\n", resumed=40)
        for step in range(start + 1, end + 1):
            log.say(
                f"INFO [2026-06-22 19:25:38] >>  iteration {step:8d}/{100:8d} | consumed samples: "
                f"{step:10d} | consumed tokens: 1357 | elapsed time per iteration (ms): 1331.7 |\n",
                step=step,
                steps=100,
            )
            if step % EVERY == 0:
                log.say(
                    f"INFO >> Distributed checkpoint saved at out/global_step_{step} "
                    "successfully!\n",
                    checkpoint=step,
                )


def mindformers(log: Log) -> None:
    prefix = "2025-04-07 15:34:29,173 - mindformers[core/callback.py:529] - INFO - "
    for start, end, resumes in _lives(log):
        log.say(f"{prefix}initial epoch: {start // 25}\n")
        log.say(f"{prefix}initial step: {start}\n", resumed=start if resumes else 0)
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25 + 1, (step - 1) % 25 + 1
            log.say(
                f"{prefix}{{ Epoch:[{epoch:3d}/{4:3d}], step:[{at:5d}/{25:5d}], loss: 10.633, "
                "per_step_time: 1752ms, lr: 1e-05, overflow cond: False, loss_scale: 1.0\n",
                step=step,
                steps=100,
            )
            log.say(f"{prefix} {step:4.1f}% |{'█' * 9}| 1.37000 samples/s/p  0:40:00 }}\n")
            log.say(f"{prefix}Epoch:[{epoch:3d}/{4:3d}], step:[{at:5d}/{25:5d}] local_norm: 0.1\n")
            if step % EVERY == 0:
                log.say(f"{prefix}......Saving ckpt......\n")
                log.say(f"{prefix}epoch_num: {epoch}\n")
                log.say(f"{prefix}step_num: {step}\n")
                log.say(f"{prefix}global_step: {step}\n")
                log.say(
                    f"{prefix}Finish saving ckpt of epoch {epoch} step {at} using 1.2 seconds\n",
                    checkpoint=step,
                )


def mindformers_pynative(log: Log) -> None:
    for start, end, resumes in _lives(log):
        if resumes:
            log.say("[INFO] Loading checkpoint from: out/iteration_00000040\n")
            log.say("[INFO] Resume dataset (static batch) from: 40\n", resumed=40)
        for step in range(start + 1, end + 1):
            log.say(
                f"[INFO] 2026-06-09 10:20:30 [x/loss_callback.py:231] _print_log: {{ step:["
                f"{step:5d}/{100:5d}], loss:  11.755612, per_step_time:    710ms, grad_norm: 1, "
                "throughput:  25.92T }\n",
                step=step,
                steps=100,
            )
            if step % EVERY == 0:
                log.say(
                    f"[INFO] Checkpoint saved at step {step} to ./out (async=False, x=False)\n",
                    checkpoint=step,
                )


def hugging_face(log: Log, prefix: str = "", *, tells_total: bool = False) -> None:
    for start, end, resumes in _lives(log):
        log.say("\n")
        if tells_total:
            log.say("[INFO] >>   Total optimization steps = 100\n", steps=100)
        if resumes:
            log.say("[transformers] Loading model from out/checkpoint-40.\n")
            log.say(
                "[transformers]   Resuming training from checkpoint with epoch 0 and global step "
                "40\n",
                resumed=40,
            )
        log.say(prefix + tqdm(0, 100))
        for step in range(start + 1, end + 1):
            saved = step - 1 if (step - 1) % EVERY == 0 and step - 1 > start else None
            log.say(prefix + tqdm(step, 100), step=step, steps=100, checkpoint=saved)
            if step % 10 == 0:
                log.say("\r" + " " * 60 + "\r")
                log.say(f"{prefix}{{'loss': '4.314', 'learning_rate': '4e-05', 'epoch': '0.04'}}\n")
                log.say(prefix + tqdm(step, 100))
            if step % EVERY == 0:
                for at in range(9):
                    log.say("\n" + tqdm(at, 8) + "\x1b[A")
                log.say("{'eval_loss': '3.1', 'eval_runtime': '0.1', 'epoch': '0.04'}\n")
                log.say(f"{tqdm(step, 100)}[transformers] Saving model checkpoint to o/checkpoint-")
                log.say(f"{step}\n")
                log.say("Configuration saved in out/config.json\n")
    log.say("{'train_runtime': '31.2', 'train_loss': '2.1', 'epoch': '3'}\n", checkpoint=100)
    for at in range(41):
        log.say(tqdm(at, 40))
    log.say("\n")


def hugging_face_with_total(log: Log) -> None:
    hugging_face(log, tells_total=True)


def diffusers(log: Log) -> None:
    for start, end, resumes in _lives(log):
        log.say(
            "08/22/2026 10:00:00 - INFO - __main__ -   Total optimization steps = 100\n", steps=100
        )
        if resumes:
            log.say("Resuming from checkpoint checkpoint-40\n", resumed=40)
        for step in range(start + 1, end + 1):
            log.say(tqdm(step, 100, "Steps: ", ", lr=0.0001, step_loss=0.1"), step=step, steps=100)
            if step % EVERY == 0:
                log.say("08/22/2026 - INFO - acc - Saving current state to o/checkpoint-80\n")
                log.say("08/22/2026 - INFO - m - removing checkpoints: checkpoint-3\n")
                log.say(f"INFO - m - Saved state to o/checkpoint-{step}\n", checkpoint=step)


def lightning(log: Log) -> None:
    """25 batches an epoch; the resume is at the end of one."""
    for start, end, resumes in _lives(log):
        start = 50 if resumes else start  # noqa: PLW2901
        if resumes:
            log.say("Restoring states from the checkpoint path at o/epoch=1-step=50.ckpt\n")
            log.say(
                "Restored all states from the checkpoint at o/epoch=1-step=50.ckpt\n", resumed=50
            )
        for at in range(3):
            log.say(tqdm(at, 2, "Sanity Checking DataLoader 0: "))
        log.say("\rTraining: |          | 0/? [00:00<?, ?it/s]")
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25, (step - 1) % 25 + 1
            if at == 1:
                log.say(tqdm(0, 25, f"Epoch {max(0, epoch - 1)}: "))
                log.say(tqdm(0, 25, f"Epoch {epoch}: "))
            saved = step - 1 if at == 1 and step - 1 > start else None
            bar = tqdm(at, 25, f"Epoch {epoch}: ", ", v_num=0, loss=1.2")
            log.say(bar, step=step, checkpoint=saved)
            if at == 25:
                for batch in range(5):
                    log.say("\n" + tqdm(batch, 4, "Validation DataLoader 0: ") + "\x1b[A")
                if step < end:
                    log.say(
                        f"Epoch {epoch}, global step {step}: 'v' reached 0.1 (best 0.1), saving "
                        f"model to 'o/x.ckpt' as top 1\n"
                    )


def deepspeed(log: Log) -> None:
    prefix = "[2023-04-28 06:59:46,878] [INFO] [logging.py:96:log_dist] [Rank 0] "
    for start, end, resumes in _lives(log):
        log.say(f"{prefix}step=0, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]\n")
        if resumes:
            log.say(f"{prefix}[Torch] Begin Load checkpoint from /c/global_step40/mp_rank_00.pt\n")
            log.say(
                f"{prefix}[Torch] End Load checkpoint from /c/global_step40/mp_rank_00.pt...\n",
                resumed=40,
            )
        for step in range(start + 1, end + 1):
            saved = step - 1 if (step - 1) % EVERY == 0 and step - 1 > start else None
            log.say(
                f"{prefix}step={step}, skipped=8, lr=[1e-05], mom=[(0.9, 0.95)]\n",
                step=step,
                checkpoint=saved,
            )
            log.say(
                f"{prefix}epoch=0/micro_step={step}/global_step={step - start}, "
                "RunningAvgSamplesPerSec=9.1, CurrSamplesPerSec=9.2, MemAllocated=0.1GB\n"
            )
            if step % EVERY == 0:
                log.say(f"{prefix}[Torch] Checkpoint global_step{step} is about to be saved!\n")


def loss_monitor(log: Log) -> None:
    """In the epoch: nothing tells its length."""
    for start, end, _ in _lives(log):
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25 + 1, (step - 1) % 25 + 1
            log.say(f"epoch: {epoch} step: {at}, loss is 0.7{step}\n", step=at)
            if at == 25:
                log.say("Train epoch time: 1250.123 ms, per step time: 50.005 ms\n")
                log.say(f"Eval result: epoch {epoch}, metrics: {{'acc': 0.5}}\n")


def mmengine(log: Log) -> None:
    prefix = "08/21 02:58:41 - mmengine - INFO - "
    for start, end, resumes in _lives(log):
        start = 50 if resumes else start  # noqa: PLW2901
        if resumes:
            log.say(f"{prefix}Auto resumed from the latest checkpoint o/epoch_2.pth.\n")
            log.say(f"{prefix}resumed epoch: 2, iter: 50\n", resumed=50)
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25 + 1, (step - 1) % 25 + 1
            log.say(
                f"{prefix}Epoch(train) [{epoch}][{at:2d}/25]  lr: 1.0000e-02  eta: 0:00:00  "
                "time: 0.0019  data_time: 0.0004  loss: 1.7388\n",
                step=step,
            )
            if at == 25:
                log.say(f"{prefix}Saving checkpoint at {epoch} epochs\n")
                log.say(f"{prefix}Epoch(val) [{epoch}][1/3]    eta: 0:00:00\n", checkpoint=step)
                log.say(f"{prefix}Epoch(val) [{epoch}][3/3]    accuracy/top1: 10.0\n")


def keras(log: Log) -> None:
    def drawn(at: int, more: str = "") -> str:
        return (
            f"{chr(8) * 40}\r\x1b[1m{at:2d}/25\x1b[0m \x1b[32m━━━━━━━━\x1b[0m\x1b[37m━━\x1b[0m "
            f"\x1b[1m1s\x1b[0m 48ms/step - loss: 0.9{more}"
        )

    for start, end, resumes in _lives(log):
        start = 50 if resumes else start  # noqa: PLW2901
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25 + 1, (step - 1) % 25 + 1
            if at == 1:
                log.say(f"Epoch {epoch}/4\n")
            log.say(drawn(at))
            log.say("\r", step=step, steps=100)
            if at == 25:
                log.say(f"\nEpoch {epoch}: saving model to o/m.keras\n")
                log.say(f"\nEpoch {epoch}: finished saving model to o/m.keras\n", checkpoint=step)
                log.say(drawn(at, " - val_loss: 0.8") + "\n")
                for batch in range(1, 8):
                    log.say(f"\r{batch}/7 ━━━━━━━━━━━━━━━━━━━━ 0s 2ms/step - loss: 0.1")
                log.say("\n")


def torchtitan(log: Log) -> None:
    prefix = "[titan] 2026-08-21 10:00:00,123 - root - INFO - "
    for start, end, resumes in _lives(log):
        if resumes:
            log.say(f"{prefix}Loading the checkpoint from o/checkpoint/step-40.\n", resumed=40)
            log.say(f"{prefix}Finished loading the checkpoint in 1.2 seconds.\n")
        log.say(f"{prefix}Training starts at step {start + 1}\n")
        for step in range(start + 1, end + 1):
            log.say(
                f"{prefix}\x1b[31mstep: {step:2}  \x1b[38;2;180;60;0mloss: 11.83506  "
                "\x1b[38;2;54;234;195mgrad_norm:  9.6669  \x1b[36mmemory: 48.87GiB(51.44%)  "
                "tps: 14,376  tflops: 253.41  mfu: 25.62%\x1b[39m\n",
                step=step,
            )
            if step % EVERY == 0:
                log.say(f"{prefix}validate step: {step + 7}  loss: 9.1  memory: 1.0GiB(1.0%)\n")
                log.say(f"{prefix}Saving the checkpoint.\n")
                log.say(f"{prefix}Finished saving the checkpoint in 2 s.\n", checkpoint=step)


def verl(log: Log) -> None:
    actor = "\x1b[36m(TaskRunner pid=123, ip=10.0.0.1)\x1b[0m "
    for start, end, resumes in _lives(log):
        log.say(f"{actor}Total training steps: 100\n", steps=100)
        if resumes:
            log.say(f"{actor}Load from checkpoint folder: /c/global_step_40\n")
            log.say(f"{actor}Setting global step to 40\n", resumed=40)
        log.say(f"{actor}step:{start} - val-core/gsm8k/reward/mean@1:0.4\n")
        for step in range(start + 1, end + 1):
            if step % EVERY == 0:
                log.say(f"{actor}local_global_step_folder: /c/global_step_{step}\n")
            log.say(
                f"{actor}step:{step} - global_seqlen/mean:1.0 - val/global_step:7 - training/"
                f"global_step:{step} - timing/step:1.25 - timing_s/step:2.5{' - a/b:1.5' * 700}\n",
                step=step,
                steps=100,
                checkpoint=step if step % EVERY == 0 else None,
            )
            log.say(f"{actor}{tqdm(step, 100, 'Training Progress: ')}")


def nanogpt(log: Log) -> None:
    for start, end, resumes in _lives(log):
        if resumes:
            log.say("Resuming training from out\n")
        for step in range(start, end):
            if step % EVERY == 0:
                log.say(f"step {step}: train loss 2.4512, val loss 2.4891\n")
                if step > start:
                    log.say("saving checkpoint to out\n")
            saved = step if step % EVERY == 0 and step > start else None
            log.say(
                f"iter {step}: loss 2.4874, time 45.67ms, mfu 12.30%\n",
                step=step + 1,
                checkpoint=saved,
                resumed=40 if resumes and step == start else None,
            )


def imagenet(log: Log) -> None:
    for start, end, resumes in _lives(log):
        start = 50 if resumes else start  # noqa: PLW2901
        if resumes:
            log.say("=> loading checkpoint 'checkpoint.pth.tar'\n")
            log.say("=> loaded checkpoint 'checkpoint.pth.tar' (epoch 2)\n", resumed=50)
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25, (step - 1) % 25 + 1
            log.say(
                f"Epoch: [{epoch}][{at:2d}/25]\tTime  0.123 ( 0.456)\tData  0.001 ( 0.002)\tLoss "
                "6.9e+00 (6.9e+00)\tAcc@1   0.00 (  0.39)\n",
                step=step,
            )
            if at == 25:
                log.say("Test: [ 1/4]\tTime  0.123 ( 0.456)\tLoss 6.9e+00 (6.9e+00)\n")
                log.say(" *   Acc@1 0.100 Acc@5 0.500\n")


def timm(log: Log) -> None:
    for start, end, resumes in _lives(log):
        start = 50 if resumes else start  # noqa: PLW2901
        if resumes:
            log.say("Loaded checkpoint 'o/last.pth.tar' (epoch 1)\n", resumed=50)
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25, (step - 1) % 25
            log.say(
                f"Train: {epoch} [{at:4d}/25 ({at * 100 // 24:3d}%)]  Loss: 2.30 (2.31)  "
                "Time: 0.123s,  520.30/s  (0.123s,  520.30/s)  LR: 1.000e-05\n",
                step=step,
            )
            if at == 24:
                log.say("Test: [   0/2]  Time: 0.1 (0.1)  Loss:  6.9 (6.9)\n")
                log.say("Current checkpoints:\n", checkpoint=step)
                log.say(" ('o/checkpoint-1.pth.tar', 12.5)\n")


def ultralytics(log: Log) -> None:
    for start, end, resumes in _lives(log):
        start = 50 if resumes else start  # noqa: PLW2901
        log.say("\rtrain: Scanning /d/labels.cache... 160 images: 100% ━━━━ 160/160 2.1Kit/s\n")
        if resumes:
            log.say("Resuming training o/last.pt from epoch 3 to 4 total epochs\n", resumed=50)
        log.say("Starting training for 4 epochs...\n")
        for step in range(start + 1, end + 1):
            epoch, at = (step - 1) // 25 + 1, (step - 1) % 25 + 1
            log.say(
                f"\r\x1b[K        {epoch}/4      1.2G      1.777      2.573      1.302         79  "
                f"      640: {at * 4}% ━━━━━━━╸──── {at}/25 4.2it/s 32.1s<39.0s"
            )
            log.say("\r", step=step, steps=100)
            if at == 25:
                log.say("\n")
                log.say(
                    "\r\x1b[K      Class     Images  Instances      Box(P          R      mAP50"
                )
                log.say(": 100% ━━━━━━━━━━━━ 3/3 4.2it/s 0.7s\n")


def nemo(log: Log) -> None:
    for start, end, _ in _lives(log):
        log.say("Sanity checking Validation: iteration 1/2\n")
        for step in range(start + 1, end + 1):
            log.say(
                f"x/0 [default0]:Training epoch 0, iteration {step - 1}/99 | lr: 3e-07 | "
                f"global_batch_size: 512 | global_step: {step - 1} | reduced_train_loss: 11.03 | "
                "train_step_timing in s: 7.549 | consumed_samples: 1024\n",
                step=step,
                steps=100,
            )
            if step % EVERY == 0:
                log.say("x/0 [default0]:Validation: iteration 3/8\n")
                log.say(
                    "[NeMo I 2026] Global Checkpoint Save : Rank: 0 : Iteration: "
                    f"{step - 1} : Start time: 17.1s : Save duration: 2.5s\n"
                )
                log.say("[NeMo I 2026] Scheduled async checkpoint save for /c\n")
            if step % EVERY == 3 and step > EVERY:
                log.say(
                    f"[NeMo I 2026] Successfully saved checkpoint from iteration {step - 4:7d} to "
                    "/c\n",
                    checkpoint=step - 3,
                )


def ms_swift(log: Log) -> None:
    for start, end, _ in _lives(log):
        for step in range(start + 1, end + 1):
            log.say(tqdm(step, 100, "Train: "), step=step, steps=100)
            if step % 5 == 0:
                log.say(
                    f"{{'loss': 1.58, 'epoch': 0.05, 'global_step/max_steps': '{step}/100', "
                    "'elapsed_time': '3s', 'train_speed(s/it)': 2.5}\n"
                )
            if step % EVERY == 0:
                for at in range(9):
                    log.say(tqdm(at, 8, "Val: "))
                log.say("\n[INFO:swift] last_model_checkpoint: o/checkpoint-3\n")


def fairseq(log: Log) -> None:
    for start, end, resumes in _lives(log):
        if resumes:
            log.say("| INFO | Loaded checkpoint c.pt (epoch 1 @ 40 updates)\n", resumed=40)
        for step in range(start + 1, end + 1):
            log.say(
                f"2021-01-01 | INFO | train_inner | epoch 001: {step + 5:6d} / 1891 loss=11.521, "
                f"wps=52922, ups=0.5, num_updates={step}, lr=1e-05\n",
                step=step,
            )
            if step % EVERY == 0:
                log.say("epoch 010 | valid on 'valid' subset  1000 / 1311 loss=1\n")
                log.say(f"Saved checkpoint c.pt (epoch 1 @ {step} updates, s)\n", checkpoint=step)


Framework = Callable[[Log], None]

FRAMEWORKS: tuple[Framework, ...] = (
    *(megatron, fsdp2, mindformers, mindformers_pynative, hugging_face, hugging_face_with_total),
    *(diffusers, lightning, deepspeed, loss_monitor, mmengine, keras, torchtitan, verl, nanogpt),
    *(imagenet, timm, ultralytics, nemo, ms_swift, fairseq),
)
