"""A rank under torchrun that draws a bar; the first one of a job fails soon before its end.

restart_torchrun.py FATAL_STEP STEPS
"""

from __future__ import annotations

import os
import sys
import time

fatal_step, steps = (int(word) for word in sys.argv[1:])
is_first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
for step in range(1, steps + 1):
    time.sleep(0.05)
    if os.environ["RANK"] == "0":
        drawn = "#" * (step * 10 // steps)
        bar = f"{step * 100 // steps:3d}%|{drawn:10}| {step}/{steps} [00:07<00:47, 20.00it/s]"
        os.write(2, f"\rtraining: {bar}".encode())
        if is_first_life and step == fatal_step:
            sys.exit(3)
