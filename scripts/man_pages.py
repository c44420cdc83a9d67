"""The man pages of both programs, as text for groff: what argparse-manpage makes of a parser."""

from __future__ import annotations

import os
from argparse import ArgumentParser

from argparse_manpage.manpage import Manpage
from command_lines import ctl_parser, supervisor_parser

from ascend_supervisor import __version__
from ascend_supervisor.settings.usage import ABOUT, EXAMPLE, EXIT_CODES, RULES


def supervisor() -> str:
    """ascend-supervisor(1)."""
    page = _page(
        supervisor_parser(), "starts, keeps and restarts the ranks of a training job on Ascend NPUs"
    )
    page.add_section("description", ">", f"{_escaped(ABOUT)}.PP\n{_escaped(RULES.strip())}")
    page.add_section("exit status", ">", f".nf\n{_escaped(EXIT_CODES)}.fi")
    page.add_section("example", ">", _escaped(EXAMPLE))
    page.add_section("see also", ">", r".BR ascend\-supervisorctl (1)")
    return str(page)


def ctl() -> str:
    """ascend-supervisorctl(1)."""
    page = _page(ctl_parser(), "looks at a running supervisor and its ranks, and asks it to act")
    page.add_section("see also", ">", r".BR ascend\-supervisor (1)")
    return str(page)


def _page(parser: ArgumentParser, meaning: str) -> Manpage:
    """Without a date, so that it changes only with the program; groff breaks its lines."""
    os.environ["COLUMNS"] = "1000"
    page = Manpage(parser, {"project_name": "ascend_supervisor", "version": __version__})
    page.date = ""
    page.manual = "User Commands"
    page.description = meaning
    return page


def _escaped(text: str) -> str:
    return text.replace("-", r"\-")
