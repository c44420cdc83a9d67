"""Turns messages of libraries and the interpreter into events."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
import warnings
from typing import Any, TextIO

from ascend_supervisor.errors import Refusal
from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import Diagnostic, defect
from ascend_supervisor.scarcity import NoThread


class _Handler(logging.Handler):
    def __init__(self, report: Report) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        told = record.exc_info[1] if record.exc_info else None
        text = "".join(traceback.format_exception(told)) if told else None
        self._report(Diagnostic(record.name, record.getMessage(), text))


def report_diagnostics(report: Report, loop: asyncio.AbstractEventLoop) -> None:
    """From now on warnings, log records, stray exceptions and ``loop``'s errors become events.

    They may come from any thread.
    """

    def safely(event: Event) -> None:
        loop.call_soon_threadsafe(report, event)

    def warn(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG001
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        safely(Diagnostic("warnings", f"{filename}:{lineno}: {category.__name__}: {message}", None))

    def complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, (Refusal, NoThread)):  # not a defect: the end was decided already
            report(Diagnostic("ascend_supervisor", f"refused too late: {error}", None))
        elif isinstance(error, BaseException):
            report(defect(error))
        else:
            report(Diagnostic("asyncio", str(context.get("message")), None))

    def thread_failed(hook: threading.ExceptHookArgs) -> None:
        if hook.exc_value is not None:
            safely(defect(hook.exc_value))

    logging.basicConfig(handlers=[_Handler(safely)], level=logging.WARNING, force=True)
    warnings.showwarning = warn
    threading.excepthook = thread_failed
    loop.set_exception_handler(complain)
    sys.unraisablehook = lambda hook: safely(
        defect(hook.exc_value or RuntimeError(str(hook.err_msg)))
    )


def unshown(whose: str, error: Exception) -> Diagnostic:
    """The event for output that is not on stdout because rendering it failed."""
    text = "".join(traceback.format_exception(error))
    return Diagnostic(
        "console",
        f"output of {whose} is missing on stdout, its log has it: this is a defect of "
        f"ascend_supervisor, please report it: {error!r}; more of the kind is not reported",
        text,
    )
