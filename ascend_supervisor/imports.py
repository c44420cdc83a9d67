"""Where our own imports come from: Python, its packages, and the directory of this package.

The directory in which a program is started, and those of PYTHONPATH, are for the ranks: a queue.py
or another anyio there is not ours. This imports nothing that the interpreter has not loaded yet.
"""

import os
import sys

SUPERVISOR, CONTROL = "ascend_supervisor", "ascend-supervisorctl"
OLDEST = (3, 10)
USAGE, UNAVAILABLE = 64, 69
TERMINATION_LOG = "/dev/termination-log"
MOST_BYTES = 4096
"""Kubernetes reads no more of it."""
MARK = "user.ascend_supervisor.refused"
"""The extended attribute of a termination log that tells a refusal."""
QUESTIONS = {"--check", "--help", "-h", "--version"}
LACKING = ("cannot allocate memory", "failed to map segment", "Too many open files")
"""What an error of the system says where a module is there, but there is no room for it."""
HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The directory of this package: its packages are ours, wherever it is."""


def begin(program: str) -> None:
    """Take from ``sys.path`` what Python has put before its own directories.

    These are the directory of the script (with ``-m``: the current one) and those of PYTHONPATH.
    What is also a directory of packages, or HOME, only moves behind Python's own. Exits if this
    Python is too old for what follows.
    """
    sys.path[:] = own_directories(sys.path, _python(), {HOME, *_packages()})
    if sys.version_info < OLDEST:
        sys.exit(refuse(ImportError(), program))


def own_directories(path: "list[str]", python: "set[str]", packages: "set[str]") -> "list[str]":
    """Those of ``path`` that are Python's or hold packages of ours."""
    ends = [place + 1 for place, entry in enumerate(path) if entry in python]
    first, last = path[: max(ends, default=0)], path[max(ends, default=0) :]
    return [
        *(entry for entry in first if entry in python),
        *(entry for entry in first if entry in packages and entry not in python),
        *last,
    ]


def _python() -> "set[str]":
    """The directories of the standard library: its archive, its modules, its extensions."""
    modules = os.path.dirname(os.__file__)
    archive = "python{}{}.zip".format(*sys.version_info[:2])
    extensions = os.path.join(modules, "lib-dynload")
    return {modules, extensions, *(entry for entry in sys.path if entry.endswith(archive))}


def _packages() -> "set[str]":
    """Where pip installs; PYTHONPATH may name it, too, and then Python lists it only once."""
    site = sys.modules.get("site")
    if site is None:
        return set()
    users = site.getusersitepackages() if getattr(site, "ENABLE_USER_SITE", False) else ""
    return {users, *getattr(site, "getsitepackages", list)()} - {""}


def refuse(error: Exception, program: str) -> int:
    """Tell why ``error`` ended an import of ours; returns the exit code.

    A sentence on stderr; of the program that runs jobs also the last event on stdout, and the
    termination log.
    """
    sentence = why_not(error)
    code = UNAVAILABLE if _lacks_room(error) else USAGE
    if program == SUPERVISOR and not os.isatty(1):
        _write(1, _event(sentence, code))
    _write(2, f"{program}: {sentence}")
    if program == SUPERVISOR:
        _tell_kubelet(sentence)
    return code


def _lacks_room(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(words.lower() in text for words in LACKING)


def why_not(error: Exception) -> str:
    """Why ``error`` ended an import of ours, and what to do."""
    if sys.version_info < OLDEST:
        found = "{}.{}".format(*sys.version_info[:2])
        return (
            f"expected Python {OLDEST[0]}.{OLDEST[1]} or later, found {found} ({sys.executable}): "
            "start it with the Python that it was installed for"
        )
    why = " ".join(str(error).split()) or type(error).__name__
    if _lacks_room(error):
        return (
            f"the machine has no room for this program: {why}; give the container more memory, and "
            "raise ulimit -v, ulimit -d and ulimit -n if they are set"
        )
    return (
        f"cannot be imported: {why}; its packages come from {HOME} and from those of "
        f"{sys.executable}, never from PYTHONPATH or the current directory, which are for the "
        "ranks: install ascend_supervisor there again, with what it needs"
    )


def _event(sentence: str, code: int) -> str:
    """supervisor.exited, as docs/events.md has it, made without any package."""
    import datetime as dt
    import json
    import socket

    host = socket.gethostname()
    try:
        from ascend_supervisor.job_files import names_of

        job, pod = names_of(os.environ, host)
    except Exception:  # noqa: BLE001  (it may be what cannot be imported)
        job, pod = "job", host
    now = dt.datetime.now(dt.timezone.utc)
    return json.dumps(
        {
            "seq": 0,
            "ts": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": "error",
            "event": "supervisor.exited",
            "msg": f"{sentence}; ending with exit code {code}",
            "job_id": job,
            "host": pod,
            "pid": os.getpid(),
            "exit_code": code,
            "reason": sentence,
            "generations": 0,
            "root_cause": sentence,
            "own_exit_code": None,
            "peers_server": None,
            "account": None,
            "percent_training": None,
            "trained": None,
            "diagnosis": None,
            "explained": None,
            "doubt": None,
        }
    )


def _tell_kubelet(sentence: str) -> None:
    """Write the termination log, if it is a regular file that nobody holds.

    What it says of the end of a job stays; what it says of a refusal is replaced.
    """
    import stat

    path = _termination_log()
    if path is None:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    text = sentence.encode(errors="replace")[: MOST_BYTES - 1]
    try:
        import fcntl

        number = os.open(path, flags, 0o644)
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(number)
        if stat.S_ISREG(found.st_mode) and (not found.st_size or tells_refusal(number)):
            os.ftruncate(number, 0)
            _write(number, text.decode(errors="ignore"))
            mark_refusal(number)
    except (ImportError, OSError):
        pass  # the sentence is on stderr


def mark_refusal(number: int) -> None:
    """Note at an open file that it says why a start was refused, where files can have notes."""
    try:
        os.setxattr(number, MARK, _last_change(number))
    except OSError:
        pass  # the next refusal will not replace it


def tells_refusal(number: int) -> bool:
    """Whether this was noted at an open file, and nothing was written to it since."""
    try:
        return os.getxattr(number, MARK) == _last_change(number)
    except OSError:
        return False


def _last_change(number: int) -> bytes:
    found = os.fstat(number)
    return f"{found.st_size} bytes at {found.st_mtime_ns}".encode()


def _termination_log() -> "str | None":
    """Where it is; None for a question, and where there is none. No configuration file is read."""
    words = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    if QUESTIONS.intersection(words):
        return None
    option, named = "--termination-log", os.environ.get("ASCEND_SUPERVISOR_TERMINATION_LOG")
    for number, word in enumerate(words):
        if word == option:
            named = "".join(words[number + 1 : number + 2])
        elif word.startswith(f"{option}="):
            named = word[len(option) + 1 :]
    return named or (TERMINATION_LOG if os.path.lexists(TERMINATION_LOG) else None)


def _write(number: int, line: str) -> None:
    try:
        os.write(number, line.encode(errors="replace") + b"\n")
    except OSError:
        pass  # nobody reads it; the exit code still tells
