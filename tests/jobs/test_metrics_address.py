"""What a real job answers to real clients at --metrics-address."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

import pytest

from tests.jobs.test_metrics import AGAIN, COMMAND
from tests.metrics.test_figures import samples_of
from tests.ports import free_port
from tests.running import DEADLINE_SECONDS, Running, python, wait_until

WAITS = python("import time; print('up', flush=True); time.sleep(600)")
Answer = tuple[int, str, str]
"""Status, content type, text."""


def page(port: int, path: str) -> Answer:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}{path}", timeout=DEADLINE_SECONDS
        ) as found:
            return found.status, found.headers["Content-Type"], found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def is_served(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_figures_and_probes_are_served_from_before_the_ranks_to_the_end(supervised, tmp_path):
    port = free_port()
    table = tmp_path / "table.json"
    job = supervised("--rank-table", str(table), "--metrics-address", f":{port}", *WAITS)
    job.wait_for("rank_table.waiting")
    assert page(port, "/healthz")[0] == 200
    status, kind, text = page(port, "/readyz")
    assert (status, kind) == (503, "text/plain; charset=utf-8")
    assert text.startswith("the job is ")
    assert text.count("\n") == 1
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert not is_served(port)


def test_the_text_is_that_of_the_file(supervised, tmp_path):
    port, path = free_port(), tmp_path / "a.prom"
    where = ("--metrics-address", f"127.0.0.1:{port}", "--metrics-file", str(path))
    job = supervised("--standalone", "2", *where, *WAITS)
    for rank in (0, 1):
        job.wait_for("output", rank=rank, msg="up")
    wait_until(lambda: page(port, "/readyz")[0] == 200)
    status, kind, text = page(port, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    wait_until(lambda: samples_of(path.read_bytes())["ranks", "running"] == 2)
    served, written = samples_of(text.encode()), samples_of(path.read_bytes())
    assert served.keys() == written.keys()
    for name in ("start_time_seconds", "generation", "restarts_left"):
        assert served[name, ""] == written[name, ""]
    job.send(signal.SIGTERM)
    assert job.end() == 143


def test_it_stays_while_ranks_restart_and_no_rank_inherits_it(supervised):
    port = free_port()
    looks = python(
        "import os, sys, time\n"
        "names = [os.readlink(f'/proc/self/fd/{one}') for one in os.listdir('/proc/self/fd')\n"
        "         if os.path.exists(f'/proc/self/fd/{one}')]\n"
        "print('sockets', sum(name.startswith('socket:') for name in names), flush=True)\n"
        "time.sleep(600)"
    )
    options = ("--standalone", "1", "--restarts", "1", "--restart-delay", "0.01")
    job = supervised(*options, "--metrics-address", f"127.0.0.1:{port}", *looks)
    for generation in (0, 1):
        job.wait_for("output", rank=0, generation=generation, msg="sockets 0")
        assert page(port, "/readyz") == (
            200,
            "text/plain; charset=utf-8",
            f"generation {generation} runs\n",
        )
        if not generation:
            (started,) = job.all("process.started")
            os.kill(started["child_pid"], signal.SIGKILL)
    found = samples_of(page(port, "/metrics")[2].encode())
    assert found["restarts_total", "crash"] == 1
    job.send(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("127.0.0.1", "another process listens there; choose another port"),
        ("", "another process listens there; choose another port"),
        (
            "192.0.2.1",
            "this machine has no such address; leave it out to listen at all",
        ),
    ],
)
def test_an_address_that_cannot_be_had_is_refused_before_the_job_starts(supervised, host, why):
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        address = f"{host}:{taken.getsockname()[1]}"
        job = supervised("--standalone", "1", "--metrics-address", address, *COMMAND)
        assert job.end() == 69
    (ended,) = job.all("supervisor.exited")
    assert ended["reason"] == f"--metrics-address {address}: {why}"
    assert not job.all("process.started")


def test_a_name_is_refused(supervised):
    job = supervised("--standalone", "1", "--metrics-address", "localhost:9400", *COMMAND)
    assert job.end() == 64
    assert "expected an IP address and a port" in job.all("supervisor.exited")[0]["reason"]


@pytest.fixture
def training(supervised: Callable[..., Running]) -> int:
    """The port of a job that has restarted once, and waits."""
    port = free_port()
    last = (*AGAIN, "--exit-linger", "0", "--metrics-address", f":{port}")
    job = supervised(*last, "--rank-env", "LIFE={generation}", *python(TRAINS_ON))
    for rank in (0, 1):
        job.wait_for("output", rank=rank, generation=1, msg="up")
    return port


TRAINS_ON = """
import os, sys, time
for step in range(1, 6):
    os.write(1, b" iteration %8d/     900 | consumed samples: 16 | lm loss: 2.3E+00 |\\n" % step)
    time.sleep(0.05)
if os.environ["LIFE"] == "0":
    sys.exit(1)
print("up", flush=True)
time.sleep(600)
"""


def needed(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed here (Debian: {package})")
    return path


def test_promtool_finds_nothing_to_complain_about(training):
    words = [needed("promtool", "prometheus"), "check", "metrics"]
    text = page(training, "/metrics")[2]
    checked = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_curl_gets_pages_and_headers(training, host):
    words = [needed("curl", "curl"), "--silent", "--show-error", "--noproxy", "*", "--globoff"]
    url = f"http://{host}:{training}"

    def curled(*more: str) -> str:
        return subprocess.run(
            [*words, *more], capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS
        ).stdout

    assert "ascend_supervisor_best_step{" in curled(f"{url}/metrics")
    assert curled("--head", f"{url}/metrics").startswith("HTTP/1.1 200 OK\n")
    status = ("--write-out", " %{http_code}")
    assert curled(*status, "--data", "x=1", f"{url}/metrics").endswith(" 501")
    assert curled(*status, f"{url}/") == "Not Found: here are /metrics, /healthz, /readyz\n 404"


def test_a_real_prometheus_scrapes_it(training, tmp_path):
    program = needed("prometheus", "prometheus")
    config, port = tmp_path / "prometheus.yml", free_port()
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "- job_name: training\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{training}']}}]\n"
    )
    words = [
        *(program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, cwd=tmp_path) as prometheus:
        try:
            wait_until(lambda: asked(port, 'up{job="training"}') == ["1"])
            assert asked(port, 'ascend_supervisor_restarts_total{cause="crash"}') == ["1"]
            assert asked(port, "ascend_supervisor_best_step") == ["5"]
        finally:
            prometheus.terminate()


def asked(port: int, query: str) -> list[str]:
    """The values that this Prometheus has; none as long as it does not answer."""
    quoted = urllib.parse.quote(query)
    try:
        status, _, text = page(port, f"/api/v1/query?query={quoted}")
    except OSError:
        return []
    if status != 200:
        return []
    return [one["value"][1] for one in json.loads(text)["data"]["result"]]
