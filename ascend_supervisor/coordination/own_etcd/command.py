"""How the etcd of a job is started: its words and its environment; pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from ascend_supervisor.etcd.access import Endpoint

PROGRAM = "etcd"
MISSING = (
    "--peers first: etcd was not found in PATH, and this is the first server, which starts it; "
    "install it (Debian and Ubuntu: apt-get install etcd-server; else a binary from "
    "https://github.com/etcd-io/etcd/releases), or name an etcd that runs already: "
    "--peers=http://HOST:2379"
)
GO_ARCHITECTURES = {"aarch64": "arm64"}
"""By the machine's name: those for which etcd 3.4 wants a word that it may run there."""


def command(program: str, serves: Endpoint, data: PurePath) -> tuple[str, ...]:
    """The words of an etcd of one member, which serves clients at one address.

    Other members would connect through a socket in ``data``, which must be its working directory:
    it needs no other port. etcd makes the socket's name of the URL.
    """
    peers = "http://127.0.0.1:0"  # a name that nobody connects to
    return (
        program,
        "--name=first",
        f"--data-dir={data}",
        f"--listen-client-urls={serves}",
        f"--advertise-client-urls={serves}",
        "--listen-peer-urls=unix://peer:0",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=first={peers}",
        "--auto-compaction-retention=1h",  # nobody reads what is older
        "--logger=zap",
        "--log-outputs=stderr",
        "--log-level=warn",
    )


def environment(machine: str) -> Mapping[str, str]:
    """All of its environment: variables of ours (ETCD_...) would be options.

    Its data end with the job, and a process that is killed loses nothing that it has written: so it
    need not wait for the disk. Versions that do not know this ignore the variable.
    """
    variables = {"ETCD_UNSAFE_NO_FSYNC": "true"}
    if machine in GO_ARCHITECTURES:
        variables["ETCD_UNSUPPORTED_ARCH"] = GO_ARCHITECTURES[machine]
    return variables
