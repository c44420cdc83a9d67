"""Each command of README.md and of the pages of commands is run by a test.

Or it is named in tests/readme/held.py with why not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from tests.readme.commands import blocks, commands, dry_run, inline
from tests.readme.held import BLOCKS, SENTENCES, Held
from tests.test_docs import differences, page
from tests.test_promises import TARGETS, missing_tests


def list_complaints(held: Sequence[Held], found: Sequence[str], what: str) -> list[str]:
    """Whether each that is found begins as one of those held does, in the same order."""
    names = [
        next((one.begins for one in held if told.startswith(one.begins)), told) for told in found
    ]
    return differences([one.begins for one in held], dict.fromkeys(names), what)


def block_complaints(text: str) -> list[str]:
    """Whether BLOCKS has each block of the pages, and no other."""
    return list_complaints(BLOCKS, [one.text for one in blocks(text)], "the block")


def test_every_block_is_run_or_named():
    assert block_complaints(commands()) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("```sh\nmake wheel\n", "```sh\nmake a wheel\n"),
        ("```sh\nmake demo\n", "```text\nready\n```\n\n```sh\nmake demo\n"),
        ("```dockerfile\nFROM busybox\nCOPY dist/portable-arm64 /portable\n```\n", ""),
    ],
)
def test_a_block_that_nobody_runs_is_found(right, wrong):
    broken = commands().replace(right, wrong, 1)
    assert broken != commands()
    assert block_complaints(broken)


def sentence_complaints(text: str) -> list[str]:
    """Whether SENTENCES has each command in the sentences of the pages, and no other."""
    return list_complaints(SENTENCES, inline(text), "the command")


@pytest.mark.parametrize("language", ["", ".zh"])
def test_every_command_in_a_sentence_is_run_or_named(language):
    assert sentence_complaints(commands(language)) == []


@pytest.mark.parametrize(("right", "wrong"), [("`kill %1`", "`etcd --version`"), ("`man ", "`")])
def test_a_command_in_a_sentence_that_nobody_runs_is_found(right, wrong):
    assert sentence_complaints(commands().replace(right, wrong))


@pytest.mark.parametrize("held", [*BLOCKS, *SENTENCES], ids=lambda held: held.begins.strip())
def test_the_tests_are_there(held):
    assert held.tests or held.not_run
    assert missing_tests("".join(f"`{test}`\n" for test in held.tests)) == []


def test_both_languages_have_the_same_commands():
    assert inline(commands()) == inline(commands(".zh"))
    assert blocks(commands()) == blocks(commands(".zh"))


# What make starts -------------------------------------------------------------------------------

STARTED = {
    "make wheel": "-m build --outdir dist .\n",
    "make demo": "/python scripts/demo\n",
    "make demo-cluster": "/python scripts/demo-cluster\n",
    "make test": "/python -m pytest ",
}
"""The tests that BLOCKS names start the same."""


def test_a_target_starts_what_its_test_starts():
    lines = [line for one in blocks(commands()) for line in one.text.splitlines()]
    assert [line for line in lines if line.startswith("make ")] == list(STARTED)
    assert [target for target, words in STARTED.items() if words not in dry_run(target)] == []


def test_every_target_exists():
    targets = {f"make {target}" for target in TARGETS.findall(page("Makefile"))}
    assert {told for told in inline(commands()) if told.startswith("make ")} - targets == set()


def test_what_is_needed_besides_is_what_the_package_asks_for():
    told = re.findall(r"^\| `pip install '(.+?)'`", page("docs/install.md"), re.MULTILINE)
    asked = [" = " + json.dumps(one.split("' '")) + "\n" for one in told]
    assert len(told) == 3
    assert [one for one in asked if one not in page("pyproject.toml")] == []
