"""A rank that only notifies: for longer than its watchdog's limit, then not any more.

notifying.py RANK...: these ranks stop; the others go on.
"""

import os
import socket
import sys
import time

rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("RANK") or os.environ["RANK_ID"]
address = os.environ["NOTIFY_SOCKET"]
seconds = int(os.environ["WATCHDOG_USEC"]) / 1e6
began = time.monotonic()
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
    sender.connect(address if address[0] == "/" else "\0" + address[1:])
    while rank not in sys.argv[1:] or time.monotonic() < began + 2 * seconds:
        sender.send(b"WATCHDOG=1\nSTATUS=rank " + rank.encode())
        time.sleep(seconds / 10)
time.sleep(600)
