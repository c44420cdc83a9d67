"""A program: a proxy in front of an etcd that is slow, and has another time.

    other_clock.py HOST PORT SECONDS-LATE DATE

It prints the port at which it listens. Each answer comes so many seconds late, with DATE: a text,
or how many seconds its clock is ahead; nothing leaves that of etcd.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from contextlib import suppress
from email.utils import formatdate

_DATE = re.compile(rb"\r\nDate: [^\r]*")


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float, date: str
) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            await asyncio.sleep(late)
            writer.write(_DATE.sub(_header(date), data) if date else data)
            await writer.drain()
    writer.close()


def _header(date: str) -> bytes:
    with suppress(ValueError):
        date = formatdate(time.time() + float(date), usegmt=True)
    return f"\r\nDate: {date}".encode()


async def serve(host: str, port: int, late: float, date: str) -> None:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(_pass_on(reader, back, 0.0, ""), _pass_on(there, writer, late, date))

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
