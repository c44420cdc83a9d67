"""What must be the same on all servers of a job: versions, and the files of its command."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ascend_supervisor import __version__
from ascend_supervisor.doctor.cann import ASKED, WORDS, installed
from ascend_supervisor.doctor.check import Ask, ThisServer, found_program
from ascend_supervisor.files.directory_digest import TooMuch, directory_digest
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import printable

ASKED_OF_PYTHON = f"""
import platform
print("found", "Python", platform.python_version(), "", sep="\\t")
{ASKED}"""
CODE = "the code (--code-digest)"
NO_DIGEST = "no digest"
MOST_CHARACTERS = 80


async def facts_of_server(server: ThisServer, ask: Ask, code: Path | None) -> dict[str, str]:
    """By name; what is not installed here has none. Takes as long as the files of ``code`` do."""
    facts = {"ascend-supervisor": __version__}
    facts |= await aside(partial(_installed, server))
    program = None
    if server.python is not None:
        program = await found_program(server.environ, server.python)
    if program is not None:
        said = await ask((program, "-c", ASKED_OF_PYTHON))
        lines = (line.split("\t") for line in said.text.decode(errors="replace").splitlines())
        told = (words for words in lines if words[0] == "found" and len(words) == WORDS)
        facts |= {name: printable(version, MOST_CHARACTERS) for _, name, version, _ in told}
    if code is not None:
        facts[CODE] = await aside(partial(_digest, code))
    return facts


def _installed(server: ThisServer) -> dict[str, str]:
    versions = installed(server).versions
    return {name: printable(text, MOST_CHARACTERS) for name, text in versions.items()}


def _digest(code: Path) -> str:
    """Or why there is none."""
    try:
        return directory_digest(code)[:16]
    except TooMuch as reason:
        return f"{NO_DIGEST}: {reason}"
    except OSError as error:
        return f"{NO_DIGEST}: {reason_of(error)}"
