"""All lines that are known, one row a format; pure.

The facts are from the frameworks' own code. A row's ``examples`` are its tests.
"""

from __future__ import annotations

from ascend_supervisor.progress.checkpoint_formats import CHECKPOINT_FORMATS
from ascend_supervisor.progress.language_formats import LANGUAGE_FORMATS
from ascend_supervisor.progress.loop_formats import LOOP_FORMATS
from ascend_supervisor.progress.step_format import StepFormat
from ascend_supervisor.progress.vision_formats import VISION_FORMATS

FORMATS: tuple[StepFormat, ...] = (
    *LANGUAGE_FORMATS,
    *VISION_FORMATS,
    *CHECKPOINT_FORMATS,
    *LOOP_FORMATS,
)
"""The first one that reads a line counts."""
