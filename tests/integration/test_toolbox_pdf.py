"""PDF: the same input gives the same bytes in every process, and no input is anything but text."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from perdure.ports.tool import ToolFailed
from perdure.toolbox.pdf import render_pdf
from tests.integration.toolbox_support import make_call

SECTIONS: list[Any] = [
    {"heading": "Wires", "paragraphs": ["First paragraph.", "Zweiter Absatz: Grüße, naïve façade."]},
    {"heading": "Pigeons", "paragraphs": ["They carried news."], "source": "https://example.org/pigeons"},
]

CHILD = """
import sys, json, pathlib
from perdure.toolbox.pdf import render_pdf
from tests.integration.toolbox_support import make_call
folder, sections = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
print(json.dumps(render_pdf.plain("News", sections, "out/r.pdf", call=make_call(folder))))
"""


def render_elsewhere(folder: Path, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), json.dumps(SECTIONS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read(path: Path) -> PdfReader:
    return PdfReader(io.BytesIO(path.read_bytes()))


def test_two_processes_in_different_surroundings_make_the_same_bytes(tmp_path: Path) -> None:
    here = render_pdf.plain("News", SECTIONS, "out/r.pdf", call=make_call(tmp_path / "a"))
    there = render_elsewhere(tmp_path / "b", TZ="Asia/Tokyo", SOURCE_DATE_EPOCH="1", LANG="C", HOME="/nowhere")
    assert here == there
    data = (tmp_path / "b" / "out" / "r.pdf").read_bytes()
    assert hashlib.sha256(data).hexdigest() == here["sha256"]
    assert len(data) == here["size_bytes"]
    other = render_pdf.plain("Newt", SECTIONS, "out/r.pdf", call=make_call(tmp_path / "a"))
    assert other["sha256"] != here["sha256"]


def test_the_time_in_the_document_is_the_fixed_one_or_the_callers(tmp_path: Path) -> None:
    call = make_call(tmp_path)
    render_pdf.plain("News", SECTIONS, "a.pdf", call=call)
    render_pdf.plain("News", SECTIONS, "b.pdf", created_seconds=1_700_000_000, call=call)
    fixed, given = read(tmp_path / "a.pdf").metadata, read(tmp_path / "b.pdf").metadata
    assert fixed is not None and given is not None
    assert fixed["/CreationDate"] == fixed["/ModDate"] == "D:20000101000000Z"
    assert given["/CreationDate"] == "D:20231114221320Z"
    assert fixed["/Title"] == "News"


def test_markup_in_the_input_is_text(tmp_path: Path) -> None:
    hostile = '#read("/etc/passwd") *bold* $x$ #panic() \\u{41} "]} //'
    section = {"heading": f"H {hostile}", "paragraphs": [hostile], "source": f"see {hostile}"}
    render_pdf.plain(hostile, [section], "x.pdf", hostile, call=make_call(tmp_path))  # type: ignore[list-item]
    document = read(tmp_path / "x.pdf")
    text = " ".join(document.pages[0].extract_text().split())
    assert text.count('#read("/etc/passwd") *bold* $x$ #panic() \\u{41}') == 5
    assert "root:" not in text
    assert document.metadata is not None and document.metadata["/Title"] == hostile


def test_only_web_addresses_become_links(tmp_path: Path) -> None:
    sources = ["https://example.org/a", "javascript:alert(1)", "file:///etc/passwd", "a book"]
    sections: list[Any] = [{"heading": "H", "paragraphs": [], "source": source} for source in sources]
    render_pdf.plain("News", sections, "x.pdf", call=make_call(tmp_path))
    page = read(tmp_path / "x.pdf").pages[0]
    links = [note.get_object()["/A"]["/URI"] for note in page.get("/Annots", [])]
    assert links == ["https://example.org/a"]
    assert all(source in page.extract_text() for source in sources)


@pytest.mark.parametrize(
    "section",
    [
        {"paragraphs": []},
        {"heading": 1, "paragraphs": []},
        {"heading": "H", "paragraphs": "text"},
        {"heading": "H", "paragraphs": [1]},
        {"heading": "H", "paragraphs": [], "source": 5},
    ],
)
def test_a_malformed_section_is_named_and_nothing_is_written(tmp_path: Path, section: Any) -> None:
    good: Any = {"heading": "H", "paragraphs": ["p"]}
    with pytest.raises(ToolFailed, match="section 2") as refusal:
        render_pdf.plain("News", [good, section], "x.pdf", call=make_call(tmp_path))
    assert refusal.value.retry is False
    assert list(tmp_path.iterdir()) == []


def test_the_output_stays_in_the_workspace(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="leads out of the workspace"):
        render_pdf.plain("News", SECTIONS, "../x.pdf", call=make_call(tmp_path / "w"))
    assert not (tmp_path / "x.pdf").exists()
    assert render_pdf.declaration.side_effect_class == "local"
