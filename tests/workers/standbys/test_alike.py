"""A program that runs warm gives the same output, exit status and traceback as cold."""

from __future__ import annotations

import zipapp
import zipfile

import pytest

from tests.workers.standbys.warming import Warm, alike, cold

pytestmark = pytest.mark.thorough

SCRIPTS = {
    "argv": "import sys; print(sys.argv, getattr(sys, 'orig_argv', 0), sys.path, __file__, __name__, __spec__)",
    "flags": "import sys; print(sys.flags, sys.path, sys._xoptions, sys.warnoptions)",
    "main": "import sys; print(sys.modules['__main__'].__dict__ is globals(), sorted(globals()))",
    "values of main": "print(__package__, __doc__, __loader__.__class__, __loader__.path)",
    "text of main": "'''What it does.'''\nprint(__doc__, globals().get('__annotations__'))",
    "environment": "import os; print(os.environ['RANK'], os.getcwd(), sorted(os.environ))",
    "environment of C": "import ctypes as c; g = c.CDLL(None).getenv; g.restype = c.c_char_p\n"
    "print(g(b'RANK'), g(b'ODD'), g(b'GONE'))",
    "own module": "import beside; print(beside.RANK)",
    "own package": "from package.inner import NAME; print(NAME)",
    "relative import": "from .beside import RANK",
    "installed package": "import pip, sys; print(pip.__name__, 'pip' in sys.modules)",
    "raises": "def f():\n    1 / 0\nf()",
    "raises while it handles": "try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError from e",
    "group": "raise ExceptionGroup('some', [ValueError(1)])",
    "own class of errors": "class E(Exception): pass\nraise E('told')",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0], a[2].tb_lineno)\n1/0",
    "usual excepthook": "import sys; print(sys.excepthook is sys.__excepthook__)",
    "depth of the stack": "import traceback\ndef f(): traceback.print_stack()\nf()",
    "cookie for latin-1": "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))",
    "byte order mark": "\ufeffprint('bom')",
    "odd escape": "import pip\nprint('\\d')",
    "future": "from __future__ import annotations\ndef f(x: nothing): pass\nprint(f.__annotations__)",
    "no future": "def f(x: int): pass\nprint(f.__annotations__)",
    "absent": "import no_such_package_here",
    "absent, caught": "try:\n    import no_such_package_here\nexcept ImportError as e:\n    print(e)",
    "exit 3": "import sys; sys.exit(3)",
    "exit text": "import sys; sys.exit('told')",
    "exit none": "import sys; sys.exit()",
    "exit of an odd kind": "import sys; sys.exit([1, 2])",
    "exit -1": "import sys; sys.exit(-1)",
    "exit true": "raise SystemExit(True)",
    "exit 256": "import sys; sys.exit(256)",
    "os exit": "import os; os._exit(7)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "aborted": "import os; os.abort()",
    "handlers": "import signal; print([signal.getsignal(n) for n in (2, 13, 15)], end=' ')\n"
    "print(signal.pthread_sigmask(0, []))",
    "handled": "import os, signal\nsignal.signal(15, lambda *a: print('heard', a[0]))\n"
    "os.kill(os.getpid(), 15)\nprint('on')",
    "interrupted": "raise KeyboardInterrupt",
    "atexit": "import atexit; atexit.register(print, 'end'); print('begin')",
    "atexit raises": "import atexit\n@atexit.register\ndef f(): 1 / 0",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
    "thread": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()",
    "thread that fails": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\n"
    "t.start(); t.join()",
    "thread of a daemon": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); print('end')",
    "threads": "import threading; print(threading.enumerate(), threading.current_thread().name)",
    "descriptors": "import os; print([(n, os.readlink(f'/proc/self/fd/{n}').split(':')[0]) "
    "for n in map(int, os.listdir('/proc/self/fd')) "
    "if os.path.exists(f'/proc/self/fd/{n}') and n < 3])\n"
    "print(sum(os.path.exists(f'/proc/self/fd/{n}') for n in range(3, 100)))",
    "standard streams": "import sys\n"
    "for s in sys.stdin, sys.stdout, sys.stderr:\n"
    "    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty())",
    "stdin": "import sys; print(repr(sys.stdin.read()))",
    "output of C": "import os, sys; print('a', flush=True); os.write(1, b'b\\n'); os.write(2, b'c\\n')\n"
    "os.system('echo d')",
    "not flushed": "import sys; sys.stdout.write('last words without a line break')",
    "umask": "import os; o = os.umask(0); print(oct(o))",
    "limits": "import resource as r; print([r.getrlimit(n) for n in range(16)])",
    "priority": "import os; print(os.getpriority(0, 0), os.sched_getscheduler(0), os.getsid(0) > 0)",
    "directory": "import os, sys; print(os.getcwd(), os.path.abspath('x'))",
    "locale": "import locale; print(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding())",
    "warning": "import warnings; warnings.warn('told'); print(warnings.filters)",
    "faulthandler": "import faulthandler; print(faulthandler.is_enabled()); faulthandler.dump_traceback()",
    "segmentation fault": "import faulthandler; faulthandler._sigsegv()",
    "recursion": "import sys; print(sys.getrecursionlimit())\ndef f(): f()\n"
    "try:\n    f()\nexcept RecursionError as e:\n    print(e)",
    "inspect": "import inspect\ndef f(): pass\nprint(inspect.getsource(f), inspect.getfile(f))",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nprint(A(1), A.__module__)",
    "runs itself": "import os, runpy, sys\nif 'AGAIN' not in os.environ:\n"
    "    os.environ['AGAIN'] = '1'\n    runpy.run_path(__file__, run_name='__main__')\nprint(__name__)",
    "executes itself": "import os, sys\nif 'AGAIN' not in os.environ:\n"
    "    os.environ['AGAIN'] = '1'\n    os.execv(sys.executable, [sys.executable, *sys.argv])\n"
    "print('again', sys.argv)",
    "starts Python": "import subprocess, sys\n"
    "print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv)'],"
    " capture_output=True).stdout)",
    "process pool": "from concurrent.futures import ProcessPoolExecutor as P\ndef f(x): return x + 1\n"
    "if __name__ == '__main__':\n    with P(2) as p: print(list(p.map(f, [1, 2])))",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory as S\n"
    "s = S(create=True, size=10); print(s.size); s.close(); s.unlink()",
    "shared memory that is left": "import os\n"
    "from multiprocessing.shared_memory import SharedMemory as S\n"
    "s = S(os.getcwd().replace('/', '_')[-200:], create=True, size=10); print(s.size)",
} | {
    f"multiprocessing {method}": (
        "import multiprocessing as m, os\ndef f(x): return x + 1, os.path.basename(__file__)\n"
        "if __name__ == '__main__':\n"
        f"    with m.get_context('{method}').Pool(1) as p: print(p.map(f, [1, 2]))"
    )
    for method in ("fork", "spawn", "forkserver")
}  # fmt: skip
NEWER = {"group": (3, 11), "shared memory": (3, 8), "shared memory that is left": (3, 8)}


@pytest.fixture
def place(tmp_path):
    """A directory with modules of the user, and an environment."""
    (tmp_path / "beside.py").write_text("import os; RANK = os.environ['RANK']")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner.py").write_text("from . import other\nNAME = other.__name__")
    (tmp_path / "package" / "other.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(
        "import sys, beside\nfrom .other import __name__ as other\n"
        "print(sys.argv, sys.path, __name__, __package__, __spec__.name, other, beside.RANK)"
    )
    return tmp_path


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_the_same_warm_as_cold(name, python, place, environ):
    if python.version < NEWER.get(name, (3,)):
        pytest.skip("this Python is older")
    (place / "script.py").write_bytes(
        SCRIPTS[name].encode("latin-1" if "latin" in name else "utf-8")
    )
    alike(["script.py", "--lr", "1"], environ, place, python.words)


def test_a_script_is_named_by_its_path(python, place, environ):
    (place / "deep").mkdir()
    (place / "deep" / "script.py").write_text("import sys; print(__file__, sys.path, sys.argv)")
    alike(["deep/script.py"], environ, place, python.words)
    alike([str(place / "deep" / "script.py")], environ, place, python.words)


def test_a_symlink_leads_to_the_modules_of_its_target(python, place, environ):
    (place / "deep").mkdir()
    (place / "script.py").write_text("import sys, beside; print(__file__, sys.path, beside.RANK)")
    (place / "deep" / "link.py").symlink_to("../script.py")
    alike(["link.py"], environ, place / "deep", python.words)


@pytest.mark.parametrize("module", ["package", "package.inner", "beside", "no_such_module"])
def test_a_module_is_the_same_warm_as_cold(module, python, place, environ):
    alike(["-m", module, "x"], environ, place, python.words)


def test_a_module_that_raises_is_told_alike(python, place, environ):
    (place / "raising.py").write_text("def f():\n    1 / 0\nf()")
    status, told = alike(["-m", "raising"], environ, place, python.words)
    assert status == 1
    assert "ZeroDivisionError" in told


def test_a_directory_and_an_archive_run_their_main(python, place, environ):
    text = "import sys, inside; print(sys.argv, sys.path[0], __name__, __file__, inside.X)"
    folder = place / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text(text)
    (folder / "inside.py").write_text("X = 1")
    with zipfile.ZipFile(place / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", text)
        archive.writestr("inside.py", "X = 1")
    alike(["folder", "y"], environ, place, python.words)
    alike(["app.pyz", "y"], environ, place, python.words)


ZIPPED = """
import importlib.resources, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from app.inner import plus

def main():
    print(sys.argv, sys.path[0], __file__, plus(1), importlib.resources.read_text("app", "x.txt"))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        print(list(pool.map(plus, [1, 2])))
    plus("1")
"""


@pytest.mark.parametrize("option", ["", "-O", "-P"])
def test_an_archive_of_zipapp_is_the_same_warm_as_cold(option, python, place, environ):
    if option == "-P" and python.version < (3, 11):
        pytest.skip("this Python is older")
    (place / "source" / "app").mkdir(parents=True)
    (place / "source" / "app" / "__init__.py").write_text("")
    (place / "source" / "app" / "run.py").write_text(ZIPPED)
    (place / "source" / "app" / "inner.py").write_text("def plus(x): return x + 1")
    (place / "source" / "app" / "x.txt").write_text("text")
    archive = place / "train.pyz"
    zipapp.create_archive(
        place / "source", archive, python.words[0], "app.run:main", compressed=True
    )
    environ = {**environ, "PYTHONUNBUFFERED": "1"}  # as ranks have it
    status, told = alike(["train.pyz", "y"], environ, place, (*python.words, *option.split()))
    assert (status, "[2, 3]" in told, "TypeError" in told) == (1, True, True)


def test_the_word_brings_the_environment_and_the_arguments(python, place, environ):
    (place / "script.py").write_text("import os, sys; print(sys.argv, sorted(os.environ.items()))")
    later = {**environ, "RANK": "7", "NEW": "1"}
    del later["EMPTY"]
    process = Warm(["script.py", "--a"], environ, place, python.words)
    assert process.told()["refused"] is None
    words = ["script.py", "--b"]
    assert process.go(later, place, words) == cold(words, later, place, python.words)


def test_a_script_that_was_written_anew_runs_as_it_is_now(python, place, environ):
    (place / "script.py").write_text("print('before')")
    process = Warm(["script.py"], environ, place, python.words)
    process.told()
    (place / "script.py").write_text("print('now')")
    assert process.go(environ, place) == (0, "now\n")


def test_an_end_without_a_word_ends_it_without_a_sound(python, place, environ):
    (place / "script.py").write_text("print('never')")
    process = Warm(["script.py"], environ, place, python.words)
    process.told()
    assert process.end() == (0, "")


def test_another_script_or_directory_in_the_word_starts_cold(python, place, environ):
    (place / "script.py").write_text("print('script')")
    (place / "other.py").write_text("import os; print('other', os.getcwd())")
    (place / "deep").mkdir()
    process = Warm(["script.py"], environ, place, python.words)
    process.told()
    words = [str(place / "other.py")]
    expected = cold(words, environ, place / "deep", python.words)
    assert process.go(environ, place / "deep", words) == expected
