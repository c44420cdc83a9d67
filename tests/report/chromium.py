"""Pages in a real browser, which has no display."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (chromium)")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--v=0"),
)
DARK = "--blink-settings=preferredColorScheme=0"
PATIENCE_SECONDS = 90
MEASURED = re.compile(r"measured:(.*?):measured", re.DOTALL)
PROBE = """<!doctype html><meta charset="utf-8">
<iframe width="{width}" height="2000" srcdoc="{page}"></iframe><p></p><script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument;
  const said = {{}};
  for (const [name, query] of Object.entries({queries})) said[name] = eval(query);
  document.querySelector("p").textContent = "measured:" + JSON.stringify(said) + ":measured";
}};
</script>"""


def shown(page: Path, *options: str) -> tuple[str, Sequence[str]]:
    """The document as the browser has it, and what its console says."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [CHROMIUM or "", *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()],
            capture_output=True,
            check=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE:" in line]


def measured(page: Path, width: int, queries: dict[str, str], *options: str) -> dict[str, object]:
    """The values of expressions about ``page``, in a frame so wide."""
    probe = page.with_name("probe.html")
    text = PROBE.format(
        width=width, page=html.escape(page.read_text()), queries=json.dumps(queries)
    )
    probe.write_text(text)
    found = MEASURED.search(shown(probe, "--dump-dom", *options)[0])
    assert found is not None
    values: dict[str, object] = json.loads(html.unescape(found[1]))
    return values
