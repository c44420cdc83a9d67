"""What real processes print: each program is run, and its output read, stdout and stderr in one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.running import DEADLINE_SECONDS

LOST = (
    "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
    "[10.64.77.53]:34971"
)
RAISES_LOSS = f"raise RuntimeError({LOST!r})"

ASIDES = {
    "a spawned child": (
        "import multiprocessing\n"
        "def work(): open('/no/such/file')\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    child.start(); child.join()"
    ),
    "a forked child with a name and a history": (
        "import multiprocessing\n"
        "def work():\n"
        "    try: {}['gone']\n"
        "    except KeyError as error: raise ValueError('bad shard') from error\n"
        "child = multiprocessing.get_context('fork').Process(target=work, name='my loader: 1')\n"
        "child.start(); child.join()"
    ),
    "a child of a fork server": (
        "import multiprocessing\n"
        "def work(): raise MemoryError\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('forkserver').Process(target=work)\n"
        "    child.start(); child.join()"
    ),
    "a spawned child that cannot import": (
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    def work(): pass\n"
        "    child = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    child.start(); child.join()"
    ),
    "a thread": (
        "import threading\n"
        "def work(): {}['gone']\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()"
    ),
    "a destructor": (
        "class Loader:\n"
        "    def __del__(self): {}['gone']\n"
        "Loader()"
    ),
    "a destructor with a history": (
        "class Loader:\n"
        "    def __del__(self):\n"
        "        try: {}['gone']\n"
        "        except KeyError: raise FileNotFoundError('x')\n"
        "Loader()"
    ),
    "a generator": (
        "def lines():\n"
        "    try: yield\n"
        "    finally: {}['gone']\n"
        "one = lines(); next(one); del one"
    ),
    "a weak reference": (
        "import weakref\n"
        "class Loader: pass\n"
        "loader = Loader(); weak = weakref.ref(loader, lambda _: {}['gone']); del loader"
    ),
    "a forgotten task": (
        "import asyncio, gc\n"
        "async def work(): {}['gone']\n"
        "async def main():\n"
        "    asyncio.create_task(work()); await asyncio.sleep(0.01); gc.collect()\n"
        "asyncio.run(main())"
    ),
    "a forgotten task in debug mode": (
        "import asyncio, gc\n"
        "async def work(): raise ImportError('late')\n"
        "async def main():\n"
        "    asyncio.create_task(work()); await asyncio.sleep(0.01); gc.collect()\n"
        "asyncio.run(main(), debug=True)"
    ),
    "a forgotten future": (
        "import asyncio\n"
        "async def main():\n"
        "    future = asyncio.get_running_loop().create_future()\n"
        "    future.set_exception(KeyError('gone')); del future\n"
        "asyncio.run(main())"
    ),
    "a callback": (
        "import asyncio\n"
        "async def main():\n"
        "    asyncio.get_running_loop().call_soon(lambda: {}['gone']); await asyncio.sleep(0.01)\n"
        "asyncio.run(main())"
    ),
    "a callback of a future": (
        "import concurrent.futures\n"
        "with concurrent.futures.ThreadPoolExecutor(1) as pool:\n"
        "    pool.submit(int).add_done_callback(lambda _: {}['gone'])"
    ),
    "logging": "import logging\nlogging.warning('%d', 'x')",
    "a request": (
        "import socket, socketserver, threading\n"
        "class Handler(socketserver.BaseRequestHandler):\n"
        "    def handle(self): {}['gone']\n"
        "server = socketserver.TCPServer(('127.0.0.1', 0), Handler)\n"
        "socket.create_connection(server.server_address)\n"
        "server.handle_request()"
    ),
}  # fmt: skip
AT_THE_END = {
    "an exit handler": "import atexit\n@atexit.register\ndef end(): {}['gone']",
    "a finalizer": (
        "import weakref\nclass Loader: pass\nloader = Loader()\n"
        "weakref.finalize(loader, lambda: {}['gone'])"
    ),
    "the destructor of a global": (
        "class Loader:\n    def __del__(self): raise MemoryError('gone')\nloader = Loader()"
    ),
    "a child that outlives it": (
        "import multiprocessing, time\n"
        "def work(): time.sleep(0.3); open('/no/such/file')\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.get_context('spawn').Process(target=work).start()"
    ),
    "a resource tracker": (
        "import atexit\n"
        "from multiprocessing import resource_tracker\n"
        "atexit.register(lambda: resource_tracker.unregister('/never', 'semaphore'))"
    ),
    "a queue": (
        "import multiprocessing, time\n"
        "queue = multiprocessing.Queue(); queue.put(lambda: 0); time.sleep(0.3)"
    ),
}  # fmt: skip
TRACEBACK_FAR_BACK = (
    "import atexit\n"
    "@atexit.register\n"
    "def summary():\n"
    "    for line in range({lines}): print('\\x1b[34mwandb\\x1b[0m: metric', line, 'x' * {width})\n"
    "raise ValueError('nan')"
)


@cache
def output(source: str, status: int | None = None, python: str = sys.executable) -> tuple[str, ...]:
    """The lines that the program prints; it must end with ``status``, if that is given."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "train.py")
        script.write_text(source)
        ended = subprocess.run(
            [python, str(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_SECONDS,
            check=False,
            cwd=directory,
        )
    assert status is None or ended.returncode == status, ended.stdout.decode()
    return tuple(ended.stdout.decode(errors="backslashreplace").splitlines())


def ending_with(aside: str, end: str) -> str:
    """A program with an aside that then ends with ``end``; children import it, too."""
    return f"{aside}\nif __name__ == '__main__':\n    {end}\n"
