"""Etcd servers for tests, and clients of them."""

from __future__ import annotations

from tests.etcd.fixtures import etcd, etcd_server

__all__ = ["etcd", "etcd_server"]
