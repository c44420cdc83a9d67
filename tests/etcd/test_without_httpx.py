"""httpx is imported when a client is made, and its absence is an error of our own."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_HTTPX = """
import sys, anyio
from ascend_supervisor.etcd.access import Access, read_endpoints
from ascend_supervisor.etcd.client import etcd_client
from ascend_supervisor.etcd.failures import EtcdError

print("httpx" in sys.modules)
sys.modules["httpx"] = None  # Python's way to say that a module cannot be imported

async def main():
    try:
        async with etcd_client(Access(read_endpoints("http://a:1"))):
            pass
    except EtcdError as error:
        print(type(error).__name__, error)

anyio.run(main)
"""


def test_without_httpx_the_error_says_so_and_nothing_imports_it_before():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HTTPX], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "False",
        "HttpxMissing the Python package httpx is not installed here",
    ]
