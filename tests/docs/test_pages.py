"""What a page tells its reader to write and to type works, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT, Block, Reader, blocks

RUNNABLE = [page for page in PAGES if any(block.runnable for block in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for block in blocks(page):
        reader.follow(block)


def test_the_pages_for_users_are_run() -> None:
    wanted = {"README.md", "docs/crash-knobs.md", "docs/policy.md", "docs/reading-the-ledger.md", "docs/tools.md"}
    assert {str(page.relative_to(ROOT)) for page in RUNNABLE} >= {*wanted, "docs/tutorial.md"}


@pytest.mark.parametrize(
    ("language", "body"),
    [
        ("console", "$ echo one\ntwo\n"),
        ("console", "$ exit 3\n"),
        ("python", "assert 1 == 2\n"),
    ],
)
def test_a_page_that_is_wrong_is_caught(language: str, body: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Reader(tmp_path).follow(Block(language, body, line=1, file=None, runnable=True))
