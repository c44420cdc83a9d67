"""Writes files as the cluster's components do: badly, for a moment.

The device plugin, Volcano and Ascend Operator truncate and write in place; the kubelet swaps the
symlink of a ConfigMap.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Protocol

RESET = "reset.json"
RESTART_TYPE = "restartType"
TABLE = "hccl.json"
VERSION = "version"


class Directory(Protocol):
    """A directory that a component of the cluster writes and the pod only reads."""

    path: Path

    def write(self, files: Mapping[str, bytes | None]) -> None:
        """Write these; None removes one."""


class HostDirectory:
    """Files on a mount of the host: each is truncated and written in place, in two pieces."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)

    def write(self, files: Mapping[str, bytes | None]) -> None:
        for name, data in files.items():
            if data is None:
                (self.path / name).unlink(missing_ok=True)
                continue
            half = len(data) // 2
            with (self.path / name).open("wb", buffering=0) as file:
                file.write(data[:half])
                file.write(data[half:])


def tear(file: Path, data: bytes) -> None:
    """Write half of it: the writer was interrupted in the middle of a character."""
    file.write_bytes(data[: len(data) // 2] + "昇".encode()[:1])


def make_again(directory: Path) -> None:
    """As the device plugin does when any pod of the job leaves the node."""
    shutil.rmtree(directory)
    directory.mkdir()


class ConfigMap:
    """What the kubelet mounts: names that lead through ``..data`` to the files of one moment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._moments = count()
        self._now: dict[str, bytes] = {}
        path.mkdir(parents=True)

    def write(self, files: Mapping[str, bytes | None]) -> None:
        """All of them change in the same moment."""
        merged = {**self._now, **files}
        self._now = {name: data for name, data in merged.items() if data is not None}
        moment = self.path / f"..moment_{next(self._moments)}"
        moment.mkdir()
        for name, data in self._now.items():
            (moment / name).write_bytes(data)
            link = self.path / name
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}")
        self._swap(moment)
        for name in merged.keys() - self._now.keys():
            (self.path / name).unlink(missing_ok=True)

    def _swap(self, moment: Path) -> None:
        current, new = self.path / "..data", self.path / "..data_tmp"
        old = current.resolve() if current.is_symlink() else None
        new.symlink_to(moment.name)
        new.rename(current)
        if old is not None:
            shutil.rmtree(old)


def listed(**statuses: str) -> list[dict[str, Any]]:
    """A RankList: ``r0="unrecovered"`` is rank 0 on a faulty NPU."""
    return [
        {
            "RankId": int(rank[1:]),
            "LogicId": int(rank[1:]),
            "Status": status,
            "Policy": "reset",
            "InitialPolicy": None,
            "ErrorCode": [],
            "ErrorCodeHex": "8C03A000",
        }
        for rank, status in statuses.items()
    ]


def reset_file(
    ranks: list[dict[str, Any]] | None = None,
    *,
    retry_time: int = 0,
    flushing: bool = False,
    graceful_exit: int = 0,
    at: int = 1700000000,
) -> bytes:
    return json.dumps(
        {
            "RankList": ranks or [],
            "UpdateTime": at,
            "RetryTime": retry_time,
            "FaultFlushing": flushing,
            "GracefulExit": graceful_exit,
            "RestartFaultProcess": False,
        }
    ).encode()
