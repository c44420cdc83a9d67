"""What is written for people holds true: each page is checked against the code that it describes.

Every checker gives a list of complaints, and is shown to complain about a broken page.
"""

from __future__ import annotations

import json
import os
import re
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec.structs import fields

import ascend_supervisor
from ascend_supervisor import errors
from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.cluster.identity import _VARIABLES
from ascend_supervisor.events import Event
from ascend_supervisor.events.output import Output
from ascend_supervisor.events.supervisor import SignalReceived
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.json_lines import Origin
from ascend_supervisor.reporters.event_log import json_log
from ascend_supervisor.settings.kinds import Option
from ascend_supervisor.settings.options import OPTIONS
from tests.test_events import EVENTS, OF_OUTPUT

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh.md")
EVENT_PAGES = ("docs/events.md", "docs/events.zh.md")
OPTION_PAGES = ("docs/options.md", "docs/options.zh.md")
EXIT_CODE_PAGES = ("docs/exit-codes.md", "docs/exit-codes.zh.md")
INSTALL_PAGES = ("docs/install.md", "docs/install.zh.md")
CODES = {
    0,
    *(code for name, code in vars(errors).items() if name.isupper()),
}
CLASSES = {cls.name: cls for cls in EVENTS}

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
LEVEL = re.compile(r"(?:\bLevel|级别) `(\w+)`")
KEY_ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \| [^|]+ \|$", re.MULTILINE)
SECTION = re.compile(r"^### (\S+)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
JSON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "list": list,
    "object": dict,
}


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def between(text: str, name: str) -> str:
    """What stands between the markers ``name:begin`` and ``name:end``."""
    return text.partition(f"<!-- {name}:begin -->\n")[2].partition(f"<!-- {name}:end -->")[0]


def chapter(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(table: str) -> list[list[str]]:
    """The cells of a table's rows, without its head; backticks are for the eye."""
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    split = [line.replace("`", "").strip("|").split("|") for line in lines]
    return [[cell.strip() for cell in cells] for cells in split]


def differences(expected: Iterable[object], found: Iterable[object], what: str) -> list[str]:
    """Complaints about what is missing, unknown, or in another order."""
    expected, found = list(expected), list(found)
    complaints = [f"{what} {one} is missing" for one in expected if one not in found]
    complaints += [f"{what} {one} is unknown" for one in found if one not in expected]
    return complaints or ([] if expected == found else [f"{what}: {found} are not in order"])


# The options -----------------------------------------------------------------------------------


def shown_default(option: Option) -> str:
    return option.otherwise or (option.default if option.kind.takes_value else None) or ""


def option_complaints(text: str, *, translated: bool) -> list[str]:
    """Whether a page's table is the table of options; a translation has words of its own."""
    table = {row[0]: row[1:] for row in rows(between(text, "options"))}
    names = {f"{option.flag} {option.kind.metavar}".rstrip(): option for option in OPTIONS}
    complaints = differences(names, table, "option")
    for name in names.keys() & table.keys():
        option, (default, meaning) = names[name], table[name]
        if translated and (option.otherwise or not option.default):
            right = bool(default) == bool(shown_default(option))
        else:
            right = default == shown_default(option)
        if not right:
            complaints.append(f"{name}: the default is {shown_default(option)!r}, not {default!r}")
        if not meaning or not (translated or meaning == option.help):
            complaints.append(f"{name}: the meaning is {option.help!r}, not {meaning!r}")
    return complaints


@pytest.mark.parametrize("name", OPTION_PAGES)
def test_the_table_of_options_is_that_of_the_program(name):
    assert option_complaints(page(name), translated=name.endswith(".zh.md")) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("| `--grace S` | `20` |", "| `--grace S` | `21` |"),
        ("| `--grace S` |", "| `--grave S` |"),
        ("| `--check` | |", "| `--check` | `false` |"),
        ("| from the environment |", "| |"),
        ("| sliding window for --restarts |", "| |"),
    ],
)
@pytest.mark.parametrize("translated", [True, False])
def test_a_wrong_table_of_options_is_found(right, wrong, translated):
    broken = page("docs/options.md").replace(right, wrong, 1)
    assert broken != page("docs/options.md")
    assert option_complaints(broken, translated=translated)


# The variables that identify this machine -------------------------------------------------------


def identity_complaints(text: str) -> list[str]:
    """Whether a page has them all, in the order in which they are compared."""
    told = re.findall(r"`(\w+)`", text.partition("<!-- identity:begin -->")[2].partition("<!--")[0])
    return differences(_VARIABLES, told, "variable")


@pytest.mark.parametrize("name", OPTION_PAGES)
def test_the_variables_that_identify_this_machine_are_those_of_the_program(name):
    assert identity_complaints(page(name)) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("`HOSTNAME`, ", ""), ("`HOST_IP`, `POD_IP`", "`POD_IP`, `HOST_IP`"), ("`POD_UID`", "`UID`")],
)
def test_wrong_variables_that_identify_this_machine_are_found(right, wrong):
    assert identity_complaints(page("docs/options.md").replace(right, wrong, 1))


# The exit codes --------------------------------------------------------------------------------


def exit_code_complaints(text: str) -> list[str]:
    """Whether the table has every code of ours, once, in rising order."""
    told = [int(row[0]) for row in rows(between(text, "exit-codes")) if row[0].isdecimal()]
    return differences(sorted(CODES), told, "exit code")


@pytest.mark.parametrize("name", EXIT_CODE_PAGES)
def test_the_table_of_exit_codes_is_that_of_the_program(name):
    assert exit_code_complaints(page(name)) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("\n| `75`", "\n| `74`"), ("\n| `0`", "\n| none"), ("\n| `64`", "\n| `65`")],
)
def test_a_wrong_table_of_exit_codes_is_found(right, wrong):
    assert exit_code_complaints(page("docs/exit-codes.md").replace(right, wrong, 1))


# The events ------------------------------------------------------------------------------------


def type_name(hint: Any) -> str:
    """A field's type, as docs/events.md writes what becomes of it in JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (other,) = (argument for argument in arguments if argument is not type(None))
        return f"{type_name(other)} or null"
    if origin is tuple:
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return f"object of {type_name(arguments[1])}"
    if origin is Literal:
        return type_name(type(arguments[0]))
    if hint is Diagnosis:
        return "object"
    name: str = hint.__name__
    return name


def fits(value: object, name: str) -> bool:
    """Whether a value of JSON is of the type that docs/events.md calls ``name``."""
    plain = name.removesuffix(" or null")
    if value is None:
        return plain != name
    kind, _, inner = plain.partition(" of ")
    if kind != "bool" and isinstance(value, bool):
        return False
    items: Iterable[object] = ()
    if isinstance(value, dict):
        items = value.values()
    elif isinstance(value, list):
        items = value
    return isinstance(value, JSON_TYPES[kind]) and all(fits(item, inner) for item in items)


def common_keys(text: str) -> dict[str, str]:
    table = chapter(text, "Keys in every event") or chapter(text, "每个事件都有的键")
    return dict(KEY_ROW.findall(table))


def event_complaints(text: str) -> list[str]:
    """Whether the page has every event, with its level, and every key, with its type."""
    sections: dict[str, str] = dict(SECTION.findall(text))
    complaints = differences(sorted(CLASSES), sorted(sections), "event")
    for name in CLASSES.keys() & sections.keys():
        event, section = CLASSES[name], sections[name]
        hints = get_type_hints(event)
        keys = {field.name: type_name(hints[field.name]) for field in fields(event)}
        complaints += differences(keys.items(), KEY_ROW.findall(section), f"{name}: key")
        if LEVEL.findall(section)[:1] != [event.level]:
            complaints.append(f"{name}: the level is {event.level}")
        common = common_keys(text)
        if event is Output:
            common = {key: common[key] for key in OF_OUTPUT}
        complaints += example_complaints(name, section, common | keys)
    return complaints


def example_complaints(name: str, section: str, keys: Mapping[str, str]) -> list[str]:
    """Whether there is an example with these keys, their types, and the level and words of ours."""
    example = re.search(r"^```json\n(.*)\n```$", section, re.MULTILINE)
    if example is None:
        return [f"{name}: there is no example"]
    event = json.loads(example[1])
    optional = {"partial", "program"} if name == "output" else set()
    complaints = differences(
        sorted(keys.keys() - optional), sorted(event.keys() - optional), f"{name}: in the example,"
    )
    complaints += [
        f"{name}: in the example, {key} is no {keys[key]}"
        for key in event.keys() & keys.keys()
        if not fits(event[key], keys[key])
    ]
    if event["event"] != name:
        complaints.append(f"{name}: of another event")
    if complaints or name == "output":
        return complaints
    return word_complaints(CLASSES[name], section, event)


def word_complaints(cls: type[Event], section: str, example: Mapping[str, Any]) -> list[str]:
    """Whether an example has the level and the words that its keys make.

    One that was recorded may lack keys that came later.
    """
    values = {field.name: example[field.name] for field in fields(cls) if field.name in example}
    event = cls(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})
    complaints = differences([event.severity], [example["level"]], f"{cls.name}: level")
    complaints += differences([event.msg], [example["msg"]], f"{cls.name}: msg")
    return complaints + [f"{cls.name}: the level {event.severity} is not told"] * (
        event.severity not in LEVEL.findall(section)
    )


@pytest.mark.parametrize("name", EVENT_PAGES)
def test_the_page_of_events_is_that_of_the_program(name):
    assert event_complaints(page(name)) == []


@pytest.mark.parametrize("name", EVENT_PAGES)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("### stop.waiting", "### stop.wait"),
        ("| `waited_seconds` | `float` |", "| `waited_seconds` | `int` |"),
        ("| `status` | `int or null` |", "| `status` | `int` |"),
        ("| `pids` | `list of int` |", "| `pids` | `list of str` |"),
        ("| `delay_seconds` | `float` |", "| `delay` | `float` |"),
        ("| `first_failed_rank` |", "| first_failed_rank |"),
        ('"restarts_left":', '"left":'),
        ('"earlier_start":false', '"earlier_start":0'),
        ("```json\n", "```\n"),
        ("| `seq` | `int` |", "| `seq` | `str` |"),
        ("; this is the first failure", "; it failed first"),
        ('"level":"error","event":"process.exited"', '"level":"info","event":"process.exited"'),
    ],
)
def test_a_wrong_page_of_events_is_found(name, right, wrong):
    broken = page(name).replace(right, wrong, 1)
    assert broken != page(name)
    assert event_complaints(broken)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("docs/events.md", "Level `warning`. ", "Level `info`. "),
        ("docs/events.md", "Level `error` if it is the first failure. ", ""),
        ("docs/events.zh.md", "级别 `warning`。", "级别 `info`。"),
        ("docs/events.zh.md", "首个失败的级别 `error`。", ""),
    ],
)
def test_a_wrong_level_is_found_in_both_languages(name, right, wrong):
    assert right in page(name)
    assert event_complaints(page(name).replace(right, wrong, 1))


async def test_the_keys_in_every_event_are_those_that_are_written():
    reading, writing = os.pipe()
    console = Console(writing)
    json_log(console, Origin("job", "host", 7), "info")(SignalReceived("SIGHUP", "none"))
    assert await console.finish()
    line = os.read(reading, 10_000)
    os.close(reading)
    os.close(writing)
    written = json.loads(line)
    keys = common_keys(page("docs/events.md"))
    assert written.keys() == keys.keys() | {"signal", "effect"}
    assert all(fits(written[key], keys[key]) for key in keys)


# The two languages -----------------------------------------------------------------------------


def translation_complaints(one: str, other: str) -> list[str]:
    """Whether two pages have the same headings, by level, and the same blocks of code."""
    levels = [HEADING.findall(FENCE.sub("", text)) for text in (one, other)]
    complaints = [] if levels[0] == levels[1] else [f"the headings differ: {levels}"]
    blocks = differences(FENCE.findall(one), FENCE.findall(other), "the code")
    return complaints + blocks


PAGES_OF_COMMANDS = ("README", "docs/install", "docs/environment", "docs/options", "docs/ctl")
"""Those whose commands tests run, in the order in which a newcomer reads them; two languages."""


@pytest.mark.parametrize("name", PAGES_OF_COMMANDS)
def test_both_languages_say_the_same(name):
    assert translation_complaints(page(f"{name}.md"), page(f"{name}.zh.md")) == []


@pytest.mark.parametrize(
    ("right", "wrong"), [("\n## ", "\n### "), ("make wheel\n", "make test\n"), ("```sh\n", "```\n")]
)
def test_a_translation_that_differs_is_found(right, wrong):
    english = page("README.md")
    assert translation_complaints(english, english.replace(right, wrong, 1))


# The probes ------------------------------------------------------------------------------------

PROBE = re.compile(r"^( *)(\w+Probe):\n((?:\1 .*\n)+)", re.MULTILINE)
PROBE_SECONDS = 10
"""``ascend-supervisorctl health`` took 2 s on a server whose cores were all busy."""


def probe_complaints(text: str) -> list[str]:
    """Whether a probe of an example could end a healthy job, or be late on a busy server."""
    complaints = []
    for _, name, body in PROBE.findall("".join(FENCE.findall(text))):
        if name == "livenessProbe":
            complaints.append("a livenessProbe restarts a healthy job when it is late")
        if f"timeoutSeconds: {PROBE_SECONDS}\n" not in body:
            complaints.append(f"{name}: kubelet waits for 1 s unless timeoutSeconds says otherwise")
    return complaints


@pytest.mark.parametrize("name", INSTALL_PAGES)
def test_no_probe_ends_a_healthy_job(name):
    assert "readinessProbe:\n" in page(name)
    assert probe_complaints(page(name)) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("readinessProbe:", "livenessProbe:"), ("                timeoutSeconds: 10\n", "")],
)
def test_a_probe_that_ends_a_healthy_job_is_found(right, wrong):
    assert probe_complaints(page("docs/install.md").replace(right, wrong, 1))


# Pages in two languages ------------------------------------------------------------------------


def skeleton(text: str) -> dict[str, list[str]]:
    """What a page and its translation have in common; comments in examples are translated.

    Of a row of a table it is the figures, in any order, because sentences differ; not those in
    names and links.
    """
    table = re.findall(r"^\|.*", re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text), re.MULTILINE)
    return {
        "headings": HEADING.findall(text),
        "table rows": [" ".join(sorted(re.findall(r"\d+(?:\.\d+)?", row))) for row in table],
        "tests": ["::".join(test) for test in TEST.findall(text)],
        "examples": [re.sub("#.*", "", example) for example in FENCE.findall(text)],
        "options": sorted(set(re.findall(r"(?<![\w-])--[a-z-]+", text))),
    }


IN_CHINESE = sorted(path.name for path in ROOT.glob("docs/*.zh.md"))


@pytest.mark.parametrize("name", ["README.zh.md", *(f"docs/{name}" for name in IN_CHINESE)])
def test_a_page_says_the_same_in_chinese(name):
    assert skeleton(page(name.replace(".zh.md", ".md"))) == skeleton(page(name))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("hangs", "## Which option"),
        ("hangs", "\n| prints on"),
        ("hangs", "--startup-timeout"),
        ("peers", " (1800) |"),
        ("peers", "tests/peers/test_whole_job.py::"),
    ],
)
def test_what_one_of_two_pages_lacks_is_found(name, wrong):
    right = page(f"docs/{name}.md")
    assert wrong in right
    assert skeleton(right.replace(wrong, "")) != skeleton(page(f"docs/{name}.zh.md"))


# The floors ------------------------------------------------------------------------------------


def rooms() -> set[str]:
    """Every module and every family of the package, as the floors name them."""
    package = Path(ascend_supervisor.__file__).parent
    families = {path.parent.name + "/" for path in package.glob("*/__init__.py")}
    return families | {path.stem for path in package.glob("*.py")}


def floor_complaints(text: str) -> list[str]:
    """Whether every room is on one floor, and the floors are numbered from the top down."""
    block = between(text, "floors").removeprefix("```\n").partition("```")[0]
    floors = [line.split() for line in block.splitlines()]
    numbers = [floor[0] for floor in floors]
    placed = sorted(name for floor in floors for name in floor[1:])
    expected = map(str, reversed(range(len(floors))))
    return differences(sorted(rooms()), placed, "room") + differences(expected, numbers, "floor")


def room_complaints(text: str) -> list[str]:
    """Whether the table of the rooms names every one, and in each only what is there."""
    table = rows(chapter(text, "The rooms"))
    told = {row[0].removesuffix(".py") for row in table}
    complaints = differences(sorted(rooms()), sorted(told), "room")
    for folder, purpose in re.findall(r"^\| `(\w+/)` \| (.*) \|$", text, re.MULTILINE):
        names = re.findall(r"`([\w/]+)`", purpose)
        complaints += [
            f"{folder}{name} does not exist" for name in names if not there(folder, name)
        ]
    return complaints


def there(folder: str, name: str) -> bool:
    """Whether a room has this file or folder; the root's are named from everywhere."""
    package = Path(ascend_supervisor.__file__).parent
    around = [package / folder, package]
    return any(path.exists() for one in around for path in (one / name, one / f"{name}.py"))


def test_the_floors_hold_every_room():
    assert floor_complaints(page("docs/ARCHITECTURE.md")) == []


def test_the_table_of_rooms_holds_every_room():
    assert room_complaints(page("docs/ARCHITECTURE.md")) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("11 __main__", "11 main"), ("4 launchers/", "3 launchers/"), ("10 cli", "10 cli cli")],
)
def test_wrong_floors_are_found(right, wrong):
    assert floor_complaints(page("docs/ARCHITECTURE.md").replace(right, wrong, 1))


def test_a_room_that_is_not_told_of_is_found():
    broken = page("docs/ARCHITECTURE.md").replace("`restart_policy.py`", "`polity.py`")
    assert room_complaints(broken)


def test_a_file_of_a_room_that_does_not_exist_is_found():
    broken = page("docs/ARCHITECTURE.md").replace("`sweep`", "`broom`")
    assert room_complaints(broken) == ["processes/broom does not exist"]


# The promises and their tests -------------------------------------------------------------------

TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def defined_in(*names: str) -> set[tuple[str, str]]:
    return {(name, test) for name in names for test in DEFINED.findall(page(name))}


def promise_complaints(text: str) -> list[str]:
    """Whether every test named is there, and every test of the fault suite is named."""
    named = set(TEST.findall(text))
    existing = defined_in(*{name for name, _ in named if (ROOT / name).exists()})
    faults = (str(path.relative_to(ROOT)) for path in ROOT.glob("tests/faults/test_*.py"))
    return [f"{name}::{test} does not exist" for name, test in sorted(named - existing)] + [
        f"{name}::{test} is not told of" for name, test in sorted(defined_in(*faults) - named)
    ]


def test_every_promise_names_the_tests_that_hold_it():
    assert promise_complaints(page("docs/reliability.md")) == []


def test_a_promise_without_a_test_is_found():
    right = page("docs/reliability.md")
    assert promise_complaints(f"{right}\n`tests/test_docs.py::test_nothing`")
    assert promise_complaints(right.replace("tests/faults/test_deaths.py::", ""))


@pytest.mark.parametrize("name", INSTALL_PAGES)
def test_the_versions_that_are_named_are_those_that_the_tests_install(name):
    project = page("pyproject.toml")
    for package in ("torch", "accelerate", "keras", "lightning", "mindspore", "mmengine"):
        (version,) = re.findall(rf'"{package}(?:-lite)?==([\d.]+)"', project)
        assert re.search(rf"\b(?:Py)?{package} {re.escape(version)}\b", page(name), re.IGNORECASE)
    (oldest,) = re.findall(r'"tensorflow-cpu>=([\d.]+)"', project)
    assert f"TensorFlow {oldest} " in page(name)
