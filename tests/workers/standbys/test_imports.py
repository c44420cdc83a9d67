"""Which imports a standby makes, and when it says that it would not be as cold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.workers.standbys.warming import Warm, cold

pytestmark = pytest.mark.thorough

SHOWS = "import os; print(__name__, 'imported', os.environ['RANK'], flush=True)"


@pytest.fixture
def place(tmp_path):
    packages = tmp_path / "venv" / "site-packages"
    packages.mkdir(parents=True)
    for name in ("large", "lazy", "late"):
        (packages / f"{name}.py").write_text(SHOWS)
    (packages / "family").mkdir()
    (packages / "family" / "__init__.py").write_text(
        "def __getattr__(name):\n"
        "    if name != 'Trainer':\n        raise AttributeError(name)\n"
        "    import lazy\n    return lazy"
    )
    (packages / "family" / "child.py").write_text(SHOWS)
    (packages / "ends.py").write_text("import sys; sys.exit(3)")
    (packages / "dies.py").write_text("import os; os._exit(4)")
    (packages / "borrows.py").write_text("import beside")
    (tmp_path / "beside.py").write_text(SHOWS)
    return tmp_path


def started(place: Path, script: str, names: Sequence[str] = ()) -> tuple[Warm, dict[str, str]]:
    (place / "script.py").write_text(script)
    environ = {
        "PATH": os.environ["PATH"],
        "RANK": "1",
        "PYTHONPATH": str(place / "venv" / "site-packages"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Warm(["script.py"], environ, place, names=names), environ


def imported(place: Path, script: str, names: Sequence[str] = ()) -> list[str]:
    """What was imported before the word, and all that is imported cold."""
    process, environ = started(place, script, names)
    told = process.told()
    assert told["refused"] is None
    later = {**environ, "RANK": "2"}
    _, said = process.go(later, place)
    _, all_said = cold(["script.py"], later, place)
    assert said.replace("imported 1", "imported 2") == all_said
    return [line.split()[0] for line in said.splitlines() if line.endswith("imported 1")]


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("import large", ["large"]),
        ("import os, large as x, sys", ["large"]),
        ("'''Text.'''\nimport late\nN = 3\ndef f(): pass\nimport large", ["late", "large"]),
        ("from family import Trainer", ["lazy"]),
        ("from family import child", ["family.child"]),
        ("import family.child", ["family.child"]),
        ("try:\n    import large\nexcept ImportError:\n    large = None", ["large"]),
        ("import beside", []),
        ("import os\nos.environ['X'] = '1'\nimport large", []),
        ("import sys\nsys.path.insert(0, '/x')\nimport large", []),
        ("import warnings\nwarnings.simplefilter('ignore')\nimport large", []),
        ("import os\nif os.environ.get('X'):\n    import late\nimport large", []),
        ("def main():\n    import large\nmain()", []),
        ("import large\nprint(1)\nimport late", ["large"]),
        ("import no_such_module_here\nimport large", ["large"]),
        ("import beside\nimport large", []),
        ("import large\nfrom beside import os\nimport late", ["large"]),
        ("try:\n    import beside\nexcept ImportError:\n    pass\nimport large", []),
        (
            "try:\n    import absent\nexcept ImportError:\n    import late\nimport large",
            ["late", "large"],
        ),
        ("try:\n    import absent\nexcept ImportError:\n    print(1)\nimport large", []),
        (
            "try:\n    import late\nexcept ImportError:\n    print(1)\nimport large",
            ["late", "large"],
        ),
        ("try:\n    import late\nfinally:\n    print(1)\nimport large", ["late"]),
        ("if __name__ == '__main__':\n    import large", ["large"]),
        ("if __name__ == '__main__':\n    print(1)\nimport large", []),
        ("if __name__ != '__main__':\n    import late\nimport large", []),
        (
            "TYPE_CHECKING = 0\nif TYPE_CHECKING:\n    import late\nelse:\n    import large",
            ["large"],
        ),
        ("TYPE_CHECKING = 0\nif not TYPE_CHECKING:\n    print(1)\nimport large", []),
        ("class A:\n    x = 1\n    def f(self): print(1)\nimport large", ["large"]),
        ("class A:\n    print(1)\nimport large", []),
        ("@staticmethod\ndef f(): pass\nimport large", []),
        ("def f(x=print(1)): pass\nimport large", []),
        ("import os\nos.environ['X']: str = '1'\nimport large", []),
    ],
)
def test_installed_packages_at_the_top_are_imported_before_the_word(place, script, names):
    if "no_such" in script:
        process, environ = started(place, script)
        assert process.told()["refused"] is None
        status, said = process.go(environ, place)
        assert (status, "No module named 'no_such_module_here'" in said) == (1, True)
        return
    assert imported(place, script) == names


def test_a_module_that_was_asked_for_is_imported_too(place):
    script = "import os\nos.environ['X'] = '1'\nimport large"
    assert imported(place, script, ["large"]) == ["large"]


def test_multiprocessing_knows_the_main_module_of_the_script(place):
    (place / "venv" / "site-packages" / "large.py").write_text(f"import multiprocessing\n{SHOWS}")
    script = "import large, sys; print(sys.modules['__mp_main__'] is sys.modules['__main__'])"
    assert imported(place, script) == ["large"]


def test_an_import_that_exits_is_left_to_the_script(place):
    process, environ = started(place, "import ends")
    assert process.told()["refused"] is None
    assert process.go(environ, place) == (3, "")


def test_an_import_that_ends_the_process_ends_it_before_the_word(place):
    process, _ = started(place, "import dies")
    assert process.link.recv(10) == b""
    assert process.end() == (4, "")


def test_a_module_beside_the_script_that_a_package_imports_starts_it_cold(place):
    process, environ = started(place, "import borrows\nprint('on')")
    refused = process.told()["refused"]
    assert refused == f"an installed package imports {place / 'beside.py'} of the script"
    status, said = process.go({**environ, "RANK": "2"}, place)
    assert (status, said.splitlines()[-2:]) == (0, ["beside imported 2", "on"])


@pytest.mark.parametrize("text", ["x = (", "if x:", "x = [1,\n2\n", "a b\n", "'''abc", "x\0"])
def test_a_script_that_cannot_be_parsed_is_refused_and_starts_cold(place, python, text):
    """A compiler that is given the text names another place than one that reads the file."""
    process, environ = started(place, "import large")
    assert process.told()["refused"] is None
    (place / "script.py").write_text(text)  # between two generations
    assert process.go(environ, place) == cold(["script.py"], environ, place)
    assert process.cold == "script.py has a syntax error"
    process = Warm(["script.py"], environ, place, python.words)
    assert process.told()["refused"] == "script.py has a syntax error"
    assert process.go(environ, place) == cold(["script.py"], environ, place, python.words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["absent.py"], "absent.py cannot be read: No such file or directory"),
        (["/dev/null"], "/dev/null is no file"),
        (["script.pyc"], "script.pyc is compiled"),
        (["latin.py"], "latin.py is not UTF-8"),
    ],
)
def test_what_only_the_interpreter_can_start_is_refused_and_starts_cold(place, words, why):
    (place / "script.pyc").write_bytes(b"no bytecode")
    (place / "latin.py").write_bytes(b"# \xe9\nprint(1)")
    environ = {"PATH": os.environ["PATH"]}
    process = Warm(words, environ, place)
    assert process.told()["refused"] == why
    assert process.go(environ, place) == cold(words, environ, place)


CHANGES = (
    "import os; os.environ.setdefault('ADDED', '1'); os.environ['ODD'] = 'changed';"
    " os.environ.pop('GONE', None)"
)
LOOKS = (
    "import sys, __main__\n"
    "SEEN = list(sys.argv), __main__.__file__, __main__ is sys.modules['__main__'], id(__main__)"
)


@pytest.mark.parametrize("odd", ["a", "b"])
def test_what_imports_and_the_interpreter_change_in_the_environment_stays(place, odd):
    """Or it starts cold, where the word gives the name another value than the imports saw."""
    (place / "venv" / "site-packages" / "changing.py").write_text(CHANGES)
    script = "import changing, os\nprint(sorted(os.environ.items()))"
    (place / "script.py").write_text(script)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(place / "venv" / "site-packages"),
        "ODD": "a",
        "GONE": "",
    }
    process = Warm(["script.py"], environ, place)
    assert process.told()["refused"] is None
    later = {**environ, "ODD": odd}
    status, said = process.go(later, place)
    assert (status, said) == cold(["script.py"], later, place)
    assert "('ADDED', '1')" in said


@pytest.mark.parametrize("words", [["script.py", "--lr", "1"], ["-m", "script", "x"]])
def test_imports_see_the_arguments_and_the_main_of_the_script(place, words):
    (place / "venv" / "site-packages" / "looking.py").write_text(LOOKS)
    script = (
        "import looking, sys\n"
        "print(looking.SEEN[:3], looking.SEEN[3] == id(sys.modules['__main__']), sys.argv)"
    )
    process, environ = started(place, script)
    process.end()
    process = Warm(words, environ, place)
    assert process.told()["refused"] is None
    assert process.go(environ, place) == cold(words, environ, place)


def test_a_warning_of_an_import_names_the_line_of_the_script(place):
    text = "import warnings; warnings.warn('old', DeprecationWarning, stacklevel=2)"
    (place / "venv" / "site-packages" / "aging.py").write_text(text)
    process, environ = started(place, "import os\n\nimport aging")
    assert process.told()["refused"] is None
    status, said = process.go(environ, place)
    assert (status, said) == cold(["script.py"], environ, place)
    assert "script.py:3: DeprecationWarning: old\n  import aging" in said
