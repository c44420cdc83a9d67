"""The steps of frameworks for language models, and of MindSpore; pure."""

from __future__ import annotations

from ascend_supervisor.progress.step_format import Example, Numbers, StepFormat, Tells

LANGUAGE_FORMATS = (
    StepFormat(
        "megatron",
        "iteration",
        r"(?<![,:] )\biteration +<step>/ *<steps> \|(?:.*? elapsed time per iteration"
        r"(?: \(s\): <seconds>|(?: \(ms\))?: <ms>))?",
        (
            Example(
                " iteration      182/  250000 | consumed samples:       186368 | elapsed time per "
                "iteration (ms): 126995.3 | learning rate: 1.365E-05 | lm loss: 2.382640E+00 |",
                Numbers(182, 250000, seconds=126.9953),
            ),
            Example(
                "INFO [2026-06-22 19:25:38] >>  iteration        2/    2000 | consumed samples: "
                "        16 | elapsed time per iteration (ms): 1331.74 | lm loss: 1.1E+01 |",
                Numbers(2, 2000, seconds=1.33174),
            ),
        ),
    ),
    StepFormat(
        "mindspeed-rl",
        "iteration: ",
        r"\] iteration: +<step> / <steps> \|",
        (
            Example(
                "[2026-04-22 01:02:03] iteration: 3 / 1000 | grpo/loss : 0.1 |", Numbers(3, 1000)
            ),
        ),
    ),
    StepFormat(
        "nemo",
        "Training epoch",
        r"Training epoch <epoch>, iteration \d+/<steps> \|.*?\| global_step: <step> "
        r"(?:.*?train_step_timing in s: <seconds>)?",
        (
            Example(
                "Training epoch 0, iteration 1/19 | lr: 3e-07 | global_batch_size: 512 | "
                "global_step: 1 | reduced_train_loss: 11.03 | train_step_timing in s: 7.549 |",
                Numbers(2, 20, 0, epochs_done=0, seconds=7.549),
            ),
        ),
        zero=("epoch", "step", "steps"),
    ),
    StepFormat(
        "nemo",
        "Training epoch",
        r"Training epoch <epoch>, iteration <step>/<steps> \|",
        (
            Example(
                "Training epoch 0, iteration 1/19 | lr: 2.999e-07 | consumed_samples: 1024",
                Numbers(2, 20, 0, epochs_done=0),
            ),
        ),
        zero=("epoch", "step", "steps"),
    ),
    StepFormat(
        "torchtitan",
        "step: ",
        r"(?<!validate )\bstep: *<step>  +loss: ",
        (
            Example(
                "[titan] 2026-08-21 10:00:00,123 - root - INFO - step: 20  loss: 11.83506  "
                "grad_norm:  9.6669  memory: 48.87GiB(51.44%)  tps: 4,376  tflops: 253.41",
                Numbers(20),
            ),
        ),
    ),
    StepFormat(
        "torchtune",
        "Step ",
        r"^Step <step> \| \w+:[-\d.]",
        (Example("Step 52 | loss:2.3697 lr:2e-05 tokens_per_second_per_gpu:512 ", Numbers(52)),),
    ),
    StepFormat(
        "verl",
        "step:",
        r"(?:^|[\]) ])step:<step> - (?!val)[\w./@-]+:(?:.*?timing_s/step:<seconds>)?",
        (
            Example(
                "step:1 - timing/gen:23.020 - critic/vf_loss:18.472 - timing_s/step:41.5",
                Numbers(1, seconds=41.5),
            ),
        ),
    ),
    StepFormat(
        "openrlhf",
        "Global step ",
        r"\bGlobal step <step>: \{",
        (Example("INFO 08-13 10:00:00 ppo.py:1] ✨ Global step 3: {'loss': 1}", Numbers(3)),),
    ),
    StepFormat(
        "deepspeed",
        "skipped=",
        r"\bstep=<step>, skipped=\d+, lr=",
        (
            Example(
                "[2023-04-28 06:59:46,878] [INFO] [logging.py:96:log_dist] [Rank 0] step=510, "
                "skipped=8, lr=[1e-05], mom=[(0.9, 0.95)]",
                Numbers(510),
            ),
        ),
    ),
    StepFormat(
        "deepspeed",
        "iter time (s)",
        r"\bsteps: <step> loss: .*?\biter time \(s\): <seconds> samples/sec",
        (
            Example(
                "steps: 20 loss: 2.3412 iter time (s): 0.512 samples/sec: 62.5",
                Numbers(20, seconds=0.512),
            ),
        ),
    ),
    StepFormat(
        "ms-swift",
        "global_step/max_steps",
        r"'global_step/max_steps': '<step>/<steps>'(?:.*?'train_speed\(s/it\)': '?<seconds>)?",
        (
            Example(
                "{'loss': 1.58882141, 'epoch': 0.05, 'global_step/max_steps': '5/94', "
                "'percentage': '5.32%', 'train_speed(iter/s)': 0.461462}",
                Numbers(5, 94),
            ),
        ),
    ),
    StepFormat(
        "ms-swift",
        "'iteration': '",
        r"'iteration': '<step>/<steps>'",
        (Example("{'loss': 1.2, 'iteration': '5/94', 'elapsed_time': '3s'}", Numbers(5, 94)),),
    ),
    StepFormat(
        "paddlenlp",
        "global_step: ",
        r"\bloss: .{0,400}?\bglobal_step: <step>,",
        (
            Example(
                "[2026-01-01 00:00:00,000] [    INFO] - loss: 1.21554871, learning_rate: 2.99e-05, "
                "global_step: 10, interval_runtime: 6.87, epoch: 0.0016",
                Numbers(10),
            ),
        ),
    ),
    StepFormat(
        "fairseq",
        "num_updates=",
        r"\bepoch <epoch>: +\d+ / \d+ .*?\bnum_updates=<step>\b",
        (
            Example(
                "2021-01-01 00:00:00 | INFO | train_inner | epoch 001:    450 / 1891 loss=11.521, "
                "wps=52922, ups=0.5, num_updates=445, lr=1e-05",
                Numbers(445, epoch=1, epochs_done=0),
            ),
        ),
    ),
    StepFormat(
        "fairseq",
        '"num_updates"',
        r'"num_updates": "?<step>\b',
        (Example('{"epoch": 1, "loss": "11.5", "num_updates": "445", "lr": "1"}', Numbers(445)),),
    ),
    StepFormat(
        "nanogpt",
        "iter ",
        r"\biter <step>: loss [\d.nan]+, time <ms>ms",
        (
            Example(
                "iter 0: loss 4.2874, time 2345.67ms, mfu -100.00%", Numbers(1, seconds=2.34567)
            ),
        ),
        zero=("step",),
    ),
    StepFormat(
        "mindformers",
        "Epoch:[",
        r"Epoch:\[ *<epoch>/ *<epochs>\], step:\[ *<step>/ *<steps>\], loss: ?\[?"
        r"(?:.*?per_step_time: *<ms>ms)?",
        (
            Example(
                "2025-04-07 15:34:29,173 - [mindformers/core/callback/callback.py:529] - INFO - "
                "{ Epoch:[  1/  2], step:[    2/   19], loss: 10.633, per_step_time: 1752ms, "
                "lr: 1e-05, overflow cond: False",
                Numbers(2, 19, 1, 2, 0, 1.752),
            ),
        ),
        is_of_epoch=True,
    ),
    StepFormat(
        "mindformers",
        "step:[",
        r"\{ *step:\[ *<step>/ *<steps>\], loss:(?:.*?per_step_time: *<ms>ms)?",
        (
            Example(
                "{ step:[    2/   10], loss:  11.755612, per_step_time:    710ms, grad_norm: 1.2 }",
                Numbers(2, 10, seconds=0.71),
            ),
        ),
    ),
    StepFormat(
        "mindformers",
        "overflow cond",
        r"\bstep <step>/<steps>, loss: .*?(?:per_step_time: *<ms>ms, )?overflow cond",
        (
            Example(
                "step 2/25, loss: 15.75, per_step_time: 577ms, overflow cond: False",
                Numbers(2, 25, seconds=0.577),
            ),
        ),
    ),
    StepFormat(
        "loss-monitor",
        "loss is",
        r"epoch: *<epoch>,? step: *<step>, loss is ",
        (Example("epoch: 3 step: 53, loss is 0.7134", Numbers(53, epoch=3, epochs_done=2)),),
        is_of_epoch=True,
    ),
    StepFormat(
        "time-monitor",
        "per step time: ",
        r"^(?:Train )?epoch time: \d[\d.]* ms, per step time: <ms> ms",
        (
            Example(
                "Train epoch time: 5083.211 ms, per step time: 50.832 ms", Numbers(seconds=0.050832)
            ),
            Example("epoch time: 5083.211 ms, per step time: 50.832 ms", Numbers(seconds=0.050832)),
        ),
        tells=Tells.TIME,
    ),
)
