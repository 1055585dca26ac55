"""The generated blocks are those that the code gives now, and a stale one is noticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tools import docs


def test_the_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    code = docs.main(["--check"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert f"{len(docs.GENERATORS)} generated blocks" in printed, "each generator is used once"


def test_a_stale_block_is_noticed_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    page = Path(shutil.copy(ROOT / "docs/how-it-decides.md", tmp_path / "docs"))
    fresh = page.read_text("utf-8")
    stale = fresh.replace("running --> in_doubt: lost", "running --> failed: lost")
    assert stale != fresh
    page.write_text(stale, "utf-8")
    assert docs.main(["--check", "--root", str(tmp_path)]) == 1
    assert page.read_text("utf-8") == stale, "a check writes nothing"
    assert docs.main(["--root", str(tmp_path)]) == 0
    assert page.read_text("utf-8") == fresh
    assert "docs/how-it-decides.md" in capsys.readouterr().out


def test_a_block_of_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        docs.renewed("<!-- generated: nothing -->\n<!-- end of generated -->")
