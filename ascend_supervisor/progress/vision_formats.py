"""The steps of frameworks and examples for images; pure."""

from __future__ import annotations

from ascend_supervisor.progress.step_format import Example, Numbers, StepFormat, Tells, row

VISION_FORMATS = (
    StepFormat(
        "mmengine",
        "(train)",
        r"Epoch\(train\) +\[ *<epoch>\]\[ *<step>/<steps>\](?:.*?\btime: <seconds>)?",
        (
            Example(
                "08/21 02:58:41 - mmengine - INFO - Epoch(train) [2][10/25]  lr: 1.0000e-02  "
                "eta: 0:00:00  time: 0.0019  data_time: 0.0004  loss: 1.7388",
                Numbers(10, 25, 2, epochs_done=1, seconds=0.0019),
            ),
        ),
        is_of_epoch=True,
    ),
    StepFormat(
        "mmengine",
        "(train)",
        r"Iter\(train\) +\[ *<step>/<steps>\](?:.*?\btime: <seconds>)?",
        (Example("mmengine - INFO - Iter(train) [ 50/300]  lr: 1e-2", Numbers(50, 300)),),
    ),
    StepFormat(
        "mmcv",
        "Epoch [",
        r"\bEpoch \[ *<epoch>\]\[ *<step>/<steps>\]\s(?:.*?\btime: <seconds>)?",
        (
            Example(
                "2022-06-03 06:33:38,427 - mmdet - INFO - Epoch [1][50/7517]\tlr: 1.000e-02, "
                "eta: 2:00:00, time: 0.240, data_time: 0.1",
                Numbers(50, 7517, 1, epochs_done=0, seconds=0.24),
            ),
        ),
        is_of_epoch=True,
    ),
    StepFormat(
        "mmcv",
        "Iter [",
        r"\bIter \[ *<step>/<steps>\]\slr: ",
        (Example("mmseg - INFO - Iter [50/80000]\tlr: 1.000e-02, eta: 2:00", Numbers(50, 80000)),),
    ),
    StepFormat(
        "ultralytics",
        "% ",
        r"^ *<epoch>/<epochs> +[\d.]+[KMG]B? .*?: *\d{1,3}% \S{1,60} +<step>/<steps> ",
        (
            Example(
                "      2/10      1.2G      1.777      2.573      1.302         79        640: "
                "45% ━━━━╸─────── 134/298 4.2it/s 32.1s<39.0s",
                Numbers(134, 298, 2, 10, 1),
            ),
        ),
        is_of_epoch=True,
    ),
    StepFormat(
        "imagenet",
        "Epoch: [",
        r"\bEpoch: \[ *<epoch>\]\[ *<step>/<steps>\](?:\s+Time\s+<seconds>)?",
        (
            Example(
                "Epoch: [1][ 10/5005]\tTime  0.123 ( 0.456)\tData  0.001 ( 0.002)\tLoss 6.9",
                Numbers(10, 5005, 1, epochs_done=1, seconds=0.123),
            ),
        ),
        zero=("epoch",),
        is_of_epoch=True,
    ),
    StepFormat(
        "torchvision",
        "Epoch: [",
        r"\bEpoch: \[ *<epoch>\] +\[ *<step>/<steps>\] +eta: ",
        (
            Example(
                "Epoch: [0]  [ 10/100]  eta: 0:00:12  lr: 0.1  loss: 1.2 (1.3)  time: 0.1",
                Numbers(11, 100, 0, epochs_done=0),
            ),
        ),
        zero=("epoch", "step"),
        is_of_epoch=True,
    ),
    StepFormat(
        "timm",
        "Train: ",
        r"\bTrain: <epoch> \[ *<step>/<steps> +\( *\d+%\)\](?:.*?\bTime: <seconds>s)?",
        (
            Example(
                "Train: 1 [  50/100 ( 50%)]  Loss: 2.30 (2.31)  Time: 0.123s,  520.3/s",
                Numbers(51, 100, 1, epochs_done=1, seconds=0.123),
            ),
        ),
        zero=("epoch", "step"),
        is_of_epoch=True,
    ),
    StepFormat(
        "basicsr",
        "[epoch:",
        r"\[epoch: *<epoch>, iter: *<step>, lr:",
        (
            Example(
                "[epoch:207, iter:  20,100, lr:(1.000e-04,)] [eta: 1 day, 18:13:17, time (data): "
                "0.365 (0.002)]",
                Numbers(20100, epoch=207, epochs_done=206),
            ),
        ),
    ),
    row(
        "mmengine",
        Tells.SAVING,
        "Saving checkpoint at ",
        r"\bSaving checkpoint at <epochs_done> epochs",
        "08/21 02:58:41 - mmengine - INFO - Saving checkpoint at 1 epochs",
        Numbers(epochs_done=1),
    ),
    row(
        "mmengine",
        Tells.SAVING,
        "Saving checkpoint at ",
        r"\bSaving checkpoint at <checkpoint> iterations",
        "08/21 02:58:41 - mmengine - INFO - Saving checkpoint at 50 iterations",
        Numbers(checkpoint=50),
    ),
    row(
        "mmengine",
        Tells.RESUMED,
        "resumed epoch",
        r"\bresumed epoch:? \d+, iter:? <resumed>\b",
        "08/21 02:58:41 - mmengine - INFO - resumed epoch: 0, iter: 150",
        Numbers(resumed=150),
    ),
    row(
        "mmengine",
        Tells.MOVED_ON,
        "(val)",
        r"\b(?:Epoch|Iter)\(val\)",
        "08/21 02:58:41 - mmengine - INFO - Epoch(val) [1][3/3]    accuracy/top1: 10.0",
    ),
    row(
        "imagenet",
        Tells.RESUMED,
        "=> loaded checkpoint ",
        r"=> loaded checkpoint '.*' \(epoch <epochs_done>\)",
        "=> loaded checkpoint 'checkpoint.pth.tar' (epoch 3)",
        Numbers(epochs_done=3),
    ),
    row(
        "timm",
        Tells.RESUMED,
        "Loaded checkpoint ",
        r"\bLoaded checkpoint '.*' \(epoch <epochs_done>\)",
        "Loaded checkpoint 'out/last.pth.tar' (epoch 2)",
        Numbers(epochs_done=3),
        ("epochs_done",),
    ),
    row(
        "timm",
        Tells.SAVED,
        "Current checkpoints:",
        r"^Current checkpoints:",
        "Current checkpoints:",
    ),
    row(
        "ultralytics",
        Tells.RESUMED,
        "Resuming training ",
        r"\bResuming training .* from epoch <next_epoch> to <epochs> total epochs",
        "Resuming training runs/train/weights/last.pt from epoch 5 to 10 total epochs",
        Numbers(epochs=10, epochs_done=4),
    ),
)
