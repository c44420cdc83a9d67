"""ascend_supervisor: starts, keeps and restarts the ranks of a training job on Ascend NPUs."""

__version__ = "0.1.0"
