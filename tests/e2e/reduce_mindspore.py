"""Adds up 1 + rank over all ranks, with MindSpore; then ends as its argument says.

    reduce_mindspore.py [kill | stay]

``kill``: rank 1 kills itself, and the others stay; ``stay``: all of them do.
"""

import os
import sys
import time

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

ms.set_device("CPU")
init()


class Sum(nn.Cell):
    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, x):
        return self.reduce(x)


total = Sum()(Tensor(np.array([1.0 + get_rank()], np.float32)))
sys.stdout.write(f"rank {get_rank()} of {get_group_size()}: the sum is {total}\n")
sys.stdout.flush()
if sys.argv[1:]:
    if sys.argv[1] == "kill" and get_rank() == 1:
        os.kill(os.getpid(), 9)
    time.sleep(600)
