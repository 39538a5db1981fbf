"""A server for each test, and private places for downloads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.registered_files import Server


@pytest.fixture
def server() -> Iterator[Server]:
    instance = Server()
    yield instance
    instance.close()


@pytest.fixture(autouse=True)
def _private_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's cache, mirror or proxies."""
    monkeypatch.setenv("BNN_ATLAS_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("BNN_ATLAS_MIRROR", raising=False)
