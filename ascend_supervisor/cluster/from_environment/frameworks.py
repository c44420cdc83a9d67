"""Which methods cannot start the ranks of a framework whose variables count; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment.declared import Declared, Framework
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.settings.values import Method

MADE_FOR: Mapping[Method, str] = {
    "torchrun": "PyTorch",
    "torch-ddp": "PyTorch",
    "msrun": "MindSpore",
    "mindspore": "MindSpore",
    "tensorflow": "TensorFlow",
}
"""The methods that start ranks of one framework only."""


def check_method(method: Method, found: Declared) -> None:
    """Raise SettingsRefused where this method cannot start the ranks of ``found``."""
    made_for = MADE_FOR.get(method)
    if found.framework is None or made_for in (None, found.framework.value):
        return
    raise SettingsRefused(
        f"--method {method} starts {made_for} ranks, but {found.evidence} belongs to a "
        f"{found.framework.value} job of Ascend Operator; {_instead(found.framework)}"
    )


def _instead(framework: Framework) -> str:
    match framework:
        case Framework.PYTORCH:
            return "leave --method and MA_RUN_METHOD out, or use --method torchrun"
