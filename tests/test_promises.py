"""What the pages name exists: programs, files, contracts, and the test of each promise.

Every checker gives a list of complaints, and is shown to complain about a broken page.
"""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from ascend_supervisor.settings.options import METHODS
from tests.test_docs import (
    FENCE,
    ROOT,
    TEST,
    chapter,
    defined_in,
    differences,
    page,
    rooms,
    rows,
)
from tests.test_links import PAGES

pytestmark = pytest.mark.one_python

# How to add something --------------------------------------------------------------------------

NAME = re.compile(r"`([^`\n]+)`")
TARGETS = re.compile(r"^([\w-]+):", re.MULTILINE)


@cache
def defined() -> frozenset[str]:
    """Every name that the package or its tests give to something."""
    found = set()
    for path in (*ROOT.glob("ascend_supervisor/**/*.py"), *ROOT.glob("tests/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return frozenset(found)


def name_complaints(text: str) -> list[str]:
    """Whether every file, program and name that a page speaks of exists."""
    names, targets = defined(), set(TARGETS.findall(page("Makefile")))
    complaints = []
    for told in NAME.findall(FENCE.sub("", text)):
        if told.startswith("make "):
            exists = told.removeprefix("make ") in targets
        elif "<" in told:  # a file that is to be written
            exists = (ROOT / told).parent.is_dir()
        else:
            places = (ROOT / told, ROOT / "ascend_supervisor" / told)
            exists = told in names | rooms() or any(place.exists() for place in places)
        if not exists:
            complaints.append(f"{told} does not exist")
    return complaints


def test_what_the_page_for_contributors_names_exists():
    assert name_complaints(page("CONTRIBUTING.md")) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("`LAUNCHERS`", "`LAUNCHABLE`"),
        ("`reporters/job_status.py`", "`reporters/state.py`"),
        ("`make help`", "`make coffee`"),
        ("launchers/<method>.py", "launcher/<method>.py"),
    ],
)
def test_a_name_that_does_not_exist_is_found(right, wrong):
    broken = page("CONTRIBUTING.md").replace(right, wrong, 1)
    assert len(name_complaints(broken)) == 1


def test_every_method_has_its_section():
    titles = re.findall(r"^## (.+)$", page("docs/methods.md"), re.MULTILINE)
    assert differences(METHODS, titles, "method") == []


def signatures(source: str, name: str) -> list[str]:
    """The methods of a class, as they are declared."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    (found,) = [node for node in classes if node.name == name]
    methods = [
        one for one in found.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return [
        f"{type(one).__name__} {one.name}({ast.unparse(one.args)}) -> "
        f"{ast.unparse(one.returns) if one.returns else ''}"
        for one in methods
    ]


@pytest.mark.parametrize(("name", "family"), [("Launcher", "launchers"), ("Probe", "probes")])
def test_the_contracts_are_those_of_the_code(name, family):
    block = chapter(page("docs/ARCHITECTURE.md"), "The contracts")
    told = block.partition("```python\n")[2].partition("```")[0]
    code = page(f"ascend_supervisor/{family}/__init__.py")
    assert signatures(told, name) == signatures(code, name) != []


# The promises and their tests -------------------------------------------------------------------

TEST_FILE = re.compile(r"`(tests/[\w/]+\.py)(?:::\w+)?`")


def missing_tests(text: str) -> list[str]:
    """The tests, and the files of tests, that a page names and that are not there."""
    files = {name for name in TEST_FILE.findall(text) if not (ROOT / name).exists()}
    named = set(TEST.findall(text))
    existing = defined_in(*{name for name, _ in named if name not in files})
    return sorted(files) + [f"{name}::{test}" for name, test in sorted(named - existing)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(path):
    assert missing_tests(path.read_text(encoding="utf-8")) == []


def test_a_test_that_does_not_exist_is_found():
    right = page("docs/security.md")
    assert missing_tests(right.replace("::test_words`", "::test_word`", 1))
    assert missing_tests(
        right.replace("`tests/processes/test_secrets.py::", "`tests/test_mask.py::", 1)
    )
    assert missing_tests("held by `tests/test_nothing.py`")


@pytest.mark.parametrize(
    ("name", "title"),
    [("docs/security.md", "Held by"), ("docs/security.zh.md", "由哪些测试保证")],
)
def test_every_promise_of_the_page_on_security_has_its_test(name, title):
    held = rows(chapter(page(name), title))
    assert held
    assert [promise for promise, tests in held if "::test_" not in tests] == []
