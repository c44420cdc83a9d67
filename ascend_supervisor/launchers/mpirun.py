"""mpirun on node 0, and sshd on all: what ModelArts' run_mpi.sh does for Horovod and MPI jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import CommandNotFound, SettingsRefused
from ascend_supervisor.launchers import Boot, Here
from ascend_supervisor.launchers.common_parts import (
    common_environ,
    launcher_log_path,
    other_directory,
)
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.process_spec import Culprit, Exhibit, ProcessSpec
from ascend_supervisor.untrusted_text import shown

SSHD_PORT = "36666"
PORT, SLOTS, INTERFACES = "MY_SSHD_PORT", "MY_MPI_SLOTS", "MY_MPI_BTL_TCP_IF"
FORWARDED = re.compile(r"(MA_|S3_|PATH|VC_WORKER_|SCC|CRED)|.*SHARED_", re.DOTALL)
"""Names of the variables that the ranks get on all servers; SHARED_ anywhere, as published."""
PORT_MARK = "{{MY_SSHD_PORT}}"
"""Stands for the port in the sshd_config of ModelArts' images."""

KEEPALIVE = {
    "OMPI_MCA_oob_tcp_keepalive_time": "30",
    "OMPI_MCA_oob_tcp_keepalive_intvl": "10",
    "OMPI_MCA_oob_tcp_keepalive_probes": "3",
}
"""A server without network is given up after 60 s; by default Open MPI 4.1 takes 480 s."""


class Tools(Struct, frozen=True):
    """What mpirun needs of this machine.

    ``head`` and ``node`` are the words that run programs/mpirun_head.py on the first server, and
    programs/mpirun_node.py on the others. ``sshd`` is a path, because sshd executes itself again
    for each connection (None: not installed); ``sshd_config`` is the user's.
    """

    head: tuple[str, ...]
    node: tuple[str, ...]
    mpirun: str | None
    sshd: str | None
    sshd_config: str | None
    sshd_config_path: str
    is_root: bool
    wait: float


class MpirunLauncher(Struct, frozen=True):
    boot: Boot
    tools: Tools

    @property
    def needs_table_file(self) -> bool:
        return False

    def plan(self, table: RankTable, here: Here, generation: int) -> tuple[ProcessSpec, ...]:
        """On node 0 mpirun, elsewhere the program that waits for it; sshd if there are others.

        Raises SettingsRefused, or CommandNotFound for what is not installed.
        """
        main = self._main(table, here, generation)
        return (main,) if len(table.entries) == 1 else (self._sshd(here, generation), main)

    def _main(self, table: RankTable, here: Here, generation: int) -> ProcessSpec:
        place = here.place
        directory = place.job_directory / "mpirun" / place.generation_name(generation)
        program = self.tools.node if here.node_rank else self.tools.head
        words = [*program, "--port", self._port]
        words += ["--wait", f"{self.tools.wait:g}"]
        words += ["--job", unique_name(place.job_id, hosts(table)[0], self._port)]
        title, testimony, explanation = "mpirun", None, None
        if here.node_rank:
            words += hosts(table)[:1]
            own_words = len(words)
            title = "the wait for mpirun"
        else:
            slots = self._slots(here)
            hostfile = directory / "hostfile"
            words += ["--slots", slots, "--hostfile", str(hostfile), *hosts(table), "--"]
            own_words = len(words)
            words += self._mpirun(len(table.entries) * int(slots), hostfile)
            testimony, explanation = MpirunTestimony(directory), LostServer()
        return ProcessSpec(
            argv=tuple(words),
            cwd=other_directory(self.boot, place),
            log=launcher_log_path(place, "mpirun", here.node_rank),
            environ={**common_environ(self.boot, here, generation), **self._keepalive()},
            directories=(directory,),
            title=title,
            testimony=testimony,
            explanation=explanation,
            own_words=own_words,
            relays_ranks=here.node_rank == 0,
            script=None if here.node_rank else self.boot.script,
        )

    def _keepalive(self) -> dict[str, str]:
        return {name: self.boot.inherited(name, usual) for name, usual in KEEPALIVE.items()}

    def _mpirun(self, ranks: int, hostfile: PurePath) -> Iterator[str]:
        if self.tools.mpirun is None:
            raise CommandNotFound("mpirun was not found in PATH; install Open MPI in the image")
        yield from (self.tools.mpirun, "-np", str(ranks), "-hostfile", str(hostfile))
        yield from ("-mca", "plm_rsh_args", f"-p {self._port}", "-bind-to", "none")
        yield from ("-map-by", "slot", "-x", "NCCL_DEBUG=INFO")
        yield from ("-x", f"NCCL_SOCKET_IFNAME={self.boot.inherited(INTERFACES, 'eth0,bond0')}")
        yield from ("-x", "NCCL_SOCKET_FAMILY=AF_INET", "-x", "HOROVOD_MPI_THREADS_DISABLE=1")
        if "LD_LIBRARY_PATH" in {*self.boot.environ, *self.boot.handed_on}:  # or it warns
            yield from ("-x", "LD_LIBRARY_PATH")
        yield from ("-mca", "pml", "ob1", "-mca", "btl", "^openib")
        yield from ("-mca", "plm_rsh_no_tree_spawn", "true")
        for name in self._forwarded():
            yield from ("-x", name)
        if self.tools.is_root:
            yield "--allow-run-as-root"
        yield from self.boot.command

    def _forwarded(self) -> list[str]:
        """The names of the variables that ranks get on all servers, besides LD_LIBRARY_PATH."""
        usual = {name for name in self.boot.environ if FORWARDED.match(name)}
        return sorted((usual | self.boot.handed_on) - {"LD_LIBRARY_PATH"})

    def _sshd(self, here: Here, generation: int) -> ProcessSpec:
        if self.tools.sshd is None:
            raise CommandNotFound("sshd was not found; install OpenSSH's server in the image")
        if self.tools.sshd_config is None:
            raise SettingsRefused(
                f"mpirun on several servers needs an sshd, and there is no "
                f"{self.tools.sshd_config_path}; put one there, with host keys and the keys that "
                "may log in"
            )
        directory = here.place.job_directory / "mpirun"
        config = directory / f"sshd_config.node_{here.node_rank}"
        text = self.tools.sshd_config.replace(PORT_MARK, self._port)
        words = (self.tools.sshd, "-D", "-e", "-f", str(config), "-p", self._port)
        return ProcessSpec(
            argv=words,
            own_words=len(words),
            cwd=other_directory(self.boot, here.place),
            log=launcher_log_path(here.place, "sshd", here.node_rank),
            environ=common_environ(self.boot, here, generation),
            significant=False,
            files={config: text.encode()},
            title="sshd",
            port=int(self._port),
            port_setting=f"{PORT}, the same on all its servers",
        )

    @property
    def _port(self) -> str:
        return _whole(PORT, self.boot.inherited(PORT, SSHD_PORT), 65535)

    def _slots(self, here: Here) -> str:
        usual = str(len(here.entry.devices) or 1)
        return _whole(SLOTS, self.boot.inherited(SLOTS, usual), 1024)


def hosts(table: RankTable) -> list[str]:
    """The servers' names, in the order of their ranks; raises SettingsRefused for one without."""
    names = [entry.host_ip or entry.server_id for entry in table.entries]
    if len(names) == 1:
        return ["127.0.0.1"]
    for node_rank, name in enumerate(names):
        if not name:
            raise SettingsRefused(
                f"mpirun needs the name of every server, and that of node rank {node_rank} is not "
                "known; set VC_WORKER_HOSTS, or MA_VJ_NAME and MA_TASK_NAME"
            )
    return [name for name in names if name]


def unique_name(job_id: str, first_server: str, port: str) -> str:
    """The name of the job's files in a home that other jobs of the same name may use.

    Only one sshd listens there; two machines may share the home.
    """
    address = f"{first_server}:{port}".encode(errors="surrogateescape")
    return f"{job_id}-{sha256(address).hexdigest()[:8]}"


def _whole(name: str, text: str, most: int) -> str:
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= most:
        return text
    raise SettingsRefused(f"{name}: expected a whole number from 1 to {most}, found {shown(text)}")


class MpirunTestimony(Struct, frozen=True):
    """Reads what mpirun (Open MPI 3 and 4) says of the first rank that failed."""

    directory: PurePath

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        """None: it leaves no files."""
        return self.directory, ""

    def culprit(
        self,
        lines: Sequence[str],
        exhibits: Sequence[Exhibit],  # noqa: ARG002
        ranks: Mapping[int, int],  # noqa: ARG002
    ) -> Culprit | None:
        """The rank that mpirun names, and the output before mpirun's own message."""
        said = next((n for n, line in enumerate(lines) if _RULE.fullmatch(line)), len(lines))
        text = "\n".join(lines)
        if found := _SIGNALLED.search(text):
            status = ExitStatus(None, int(found[2]))
        elif found := _EXITED.search(text):
            status = ExitStatus(int(found[2]))
        else:
            return None
        return Culprit(int(found[1]), status, None, tuple(lines[:said]))

    def false_success(self, lines: Sequence[str]) -> str | None:  # noqa: ARG002
        """None: mpirun has seen the end of every rank."""
        return None


class LostServer(Struct, frozen=True):
    """Reads what programs/mpirun_head.py says about a server that no longer answers."""

    def reason(self, lines: Sequence[str], heard: Sequence[str]) -> str | None:  # noqa: ARG002
        """The first that it names."""
        return next((found[1] for found in map(_LOST.fullmatch, lines) if found), None)


_LOST = re.compile(r"ascend_supervisor: (.* was lost: .*)")
_RULE = re.compile(r"-{20,}")
_SIGNALLED = re.compile(
    r"process rank (\d{1,7}) with PID \d+ on node .* exited on\s+signal (\d{1,3})(?!\d)"
)
_EXITED = re.compile(r"Process name: \[\[\d+,\d+\],(\d{1,7})\]\s+Exit code:\s+(\d{1,10})(?!\d)")
