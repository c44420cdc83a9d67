"""The steps of general training loops; pure."""

from __future__ import annotations

from ascend_supervisor.progress.step_format import Example, Numbers, StepFormat, Tells, row

LOOP_FORMATS = (
    StepFormat(
        "lightning",
        "/? [",
        r"^Training: .*\| *<step>/\? \[",
        (Example("Training: |          | 42/? [00:01<00:00, 36.5it/s]", Numbers(42)),),
        is_of_epoch=True,
    ),
    StepFormat(
        "lightning",
        "Epoch ",
        r"\bEpoch <epoch>/(?:<epochs>|-\d{1,9}) {1,4}[━╸╺ ]{1,120} <step>/<steps> \d+:[\d:]+ • ",
        (
            Example(
                "Epoch 1/4  ━━━━━━━━━━━━━━━━ 18/60 0:00:00 • 0:00:02 36.03it/s train_loss: 0.355",
                Numbers(18, 60, 1, 5, 1),
            ),
        ),
        zero=("epoch", "epochs"),
        is_of_epoch=True,
    ),
    StepFormat(
        "keras",
        "Epoch ",
        r"^Epoch <epoch>/<epochs>\s*$",
        (Example("Epoch 2/5", Numbers(epoch=2, epochs=5, epochs_done=1)),),
        tells=Tells.EPOCH,
    ),
    StepFormat(
        "keras",
        "/step",
        r"^ *<step>/(?:<steps>|Unknown) {1,4}(?:[━╸╺]|\[[=>.]+\] |- ).*?"
        r"(?<![\d.])(?:<ms>m|<seconds>|\d+[un])s/step",
        (
            Example(
                " 7/50 ━━━━━━━━━━━━━━━━━━━━ 2s 48ms/step - loss: 0.9", Numbers(7, 50, seconds=0.048)
            ),
            Example("50/50 - 2s - 45ms/step - loss: 0.7", Numbers(50, 50, seconds=0.045)),
            Example("50/50 [====] - 2s 40ms/step - loss: 0.7", Numbers(50, 50, seconds=0.04)),
        ),
        is_of_epoch=True,
        has_heading=True,
    ),
    StepFormat(
        "keras",
        "ETA: ",
        r"^ *<step>/<steps> \[[=>.]+\] - ETA: ",
        (Example("10/50 [====>...............] - ETA: 3s - loss: 0.1", Numbers(10, 50)),),
        is_of_epoch=True,
        has_heading=True,
    ),
    StepFormat(
        "epochs-and-steps",
        "poch",
        r"(?i)^(?!.*(?:eval|valid|\bval\b|\btest)).*?\bepoch:? \[?<epoch>/<epochs>\]?"
        r",? {0,4}[|-]? {0,4}(?:step|iter|iteration|batch):? \[?<step>/<steps>\]?",
        (
            Example(
                "[INFO] Epoch 2/200, Step 100/3995, step time: 654.40 ms",
                Numbers(100, 3995, 2, 200, 1),
            ),
            Example("Epoch [1/90], Iter [10/500] Loss: 2.3", Numbers(10, 500, 1, 90, 0)),
        ),
        is_of_epoch=True,
    ),
    StepFormat(
        "steps",
        "oss",
        r"(?i)^(?!.*(?:eval|valid|\bval\b|\btest)).*?\b(?:step|iter|iteration)s?[ :=\[(]*"
        r"<step> ?/ ?<steps>\b(?=.*\bloss\b)",
        (Example("step 100/1000 | loss 3.21 | lr 1e-4", Numbers(100, 1000)),),
        is_sure=False,
    ),
    StepFormat(
        "steps",
        "oss",
        r"(?i)^(?!.*(?:eval|valid|\bval\b|\btest))\W*(?:\btrain(?:ing)? )?(?:step|iter|iteration)"
        r"[ :=\[]+<step>\b[] |,:-]+(?:train[_ ])?loss\b",
        (Example("step   100 | loss: 3.2112 | norm: 1.2 | dt: 12.3ms", Numbers(100)),),
        is_sure=False,
    ),
    row(
        "accelerate",
        Tells.SAVED,
        "Saved state to ",
        r"Saved state to .*\b(?:checkpoint|step)[-_]<checkpoint>(?![\w-])",
        "08/22/2026 10:00:00 - INFO - __main__ - Saved state to out/checkpoint-80",
        Numbers(checkpoint=80),
    ),
    row(
        "accelerate",
        Tells.SAVING,
        "Saving current state to ",
        r"Saving current state to .*\b(?:checkpoint|step)[-_]<checkpoint>(?![\w-])",
        "08/22/2026 10:00:00 - INFO - accelerate - Saving current state to out/step_80",
        Numbers(checkpoint=80),
    ),
    row(
        "accelerate",
        Tells.RESUMED,
        " from checkpoint",
        r"\bResum(?:ing|ed) from checkpoint:? .*?\b(?:checkpoint-|step_)<resumed>(?![\w-])",
        "Resuming from checkpoint checkpoint-160",
        Numbers(resumed=160),
    ),
    row(
        "lightning",
        Tells.SAVING,
        ", global step ",
        r"\bEpoch \d+, global step <checkpoint>: .*saving model to ",
        "Epoch 2, global step 160: 'val_loss' reached 0.50 (best 0.50), saving model to 'a' as top "
        "1",
        Numbers(checkpoint=160),
    ),
    row(
        "lightning",
        Tells.RESUMED,
        "Restored all states from the checkpoint",
        r"Restored all states from the checkpoint at .*\bstep=<resumed>(?!\w)",
        "Restored all states from the checkpoint at ckpt/epoch=2-step=160.ckpt",
        Numbers(resumed=160),
    ),
    row(
        "lightning",
        Tells.MOVED_ON,
        "Trainer.fit",
        r"`Trainer\.fit` stopped: ",
        "`Trainer.fit` stopped: `max_epochs=5` reached.",
    ),
    row(
        "keras",
        Tells.SAVED,
        "finished saving model to ",
        r"^Epoch <epochs_done>: finished saving model to ",
        "Epoch 1: finished saving model to out/model.keras",
        Numbers(epochs_done=1),
    ),
    row(
        "keras",
        Tells.SAVING,
        ": saving model to ",
        r"^Epoch <epochs_done>: (?:\w+ improved .*, )?saving model to ",
        "Epoch 1: saving model to out/model.keras",
        Numbers(epochs_done=1),
    ),
)
