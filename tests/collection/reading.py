"""Archives, as whoever gets one unpacks them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import PurePosixPath
from typing import Any


def members(archive: bytes) -> dict[str, bytes]:
    """The content of each file by its name below the directory of the archive.

    All names are checked: unpacked, none of them leaves the directory.
    """
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for one in tar:
            path = PurePosixPath(one.name)
            assert one.isreg()
            assert not path.is_absolute()
            assert ".." not in path.parts
            assert one.mode == 0o600
            name = "/".join(path.parts[1:])
            assert name not in found
            file = tar.extractfile(one)
            assert file is not None
            found[name] = file.read()
    return found


def manifest_of(found: dict[str, bytes]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found["MANIFEST.json"])
    assert {one["name"] for one in document["taken"]} == found.keys() - {"MANIFEST.json"}
    for one in document["taken"]:
        assert one["bytes"] == len(found[one["name"]])
    return document


def why_not(manifest: dict[str, Any], source: str) -> str:
    """Why something was left out."""
    (why,) = (one["why"] for one in manifest["left_out"] if one["source"] == source)
    assert isinstance(why, str)
    return why
