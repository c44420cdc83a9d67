"""The commands of the pages as a reader copies them, and the words that their containers start."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any, NamedTuple

import yaml

from tests.test_docs import FENCE, PAGES_OF_COMMANDS, ROOT, page

WORDS = (
    *("ascend-supervisor", "ascend-supervisorctl", "apt-get", "docker", "etcd", "kill", "kubectl"),
    *("make", "man", "pip", "python"),
)
INLINE = re.compile(rf"`((?:{'|'.join(WORDS)}) [^`\n]*)`")
MINDSPORE = "FROM swr.example.com/my-org/mindspore:cann\n"
"""How the Dockerfile of the image with the wheel begins."""


class Block(NamedTuple):
    """A fenced block: what it is written in, and its lines."""

    language: str
    text: str


def blocks(text: str) -> list[Block]:
    """All of a text, in order."""
    fenced = (block.removesuffix("```").removeprefix("```") for block in FENCE.findall(text))
    return [Block(*block.split("\n", 1)) for block in fenced]


def commands(language: str = "") -> str:
    """README.md and the pages to which it leads for commands, one after the other."""
    return "".join(page(f"{name}{language}.md") for name in PAGES_OF_COMMANDS)


def block(begins: str) -> str:
    """The text of the only block of the pages that begins so."""
    (found,) = (one.text for one in blocks(commands()) if one.text.startswith(begins))
    return found


def inline(text: str) -> list[str]:
    """Commands between backticks in the sentences of a text, each once, in alphabetical order."""
    return sorted(set(INLINE.findall(FENCE.sub("", text))))


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The words of a Dockerfile and what follows each."""
    lines = dockerfile.replace("\\\n", "").splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def image_words() -> list[str]:
    """What the image with the wheel starts: its ENTRYPOINT and its CMD."""
    told = dict(instructions(block(MINDSPORE)))
    return [*json.loads(told["ENTRYPOINT"]), *json.loads(told["CMD"])]


def volcano_job() -> Any:
    """The manifest, where the container's words are those of the image before its own."""
    job = yaml.safe_load(block("# Without the labels"))
    (task,) = job["spec"]["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    first, *options = image_words()
    between = options[: options.index("--") + 1]
    container |= {"command": [first], "args": [*between, *container["args"]]}
    return job


def portable_pod() -> Any:
    """The manifest of a pod into which the portable directory is copied."""
    return yaml.safe_load(block("spec:\n"))["spec"]


def dry_run(command: str) -> str:
    """What make would start."""
    words = [*command.split(), "--dry-run"]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
