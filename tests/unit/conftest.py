"""What several files of unit tests share: a running provider, and threads beside the test."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perdure.testing.provider.client import Provider


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with Provider(tmp_path / "provider.jsonl", fsync=False) as running:
        yield running


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool
