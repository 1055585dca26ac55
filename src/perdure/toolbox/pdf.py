"""A report as PDF, by typst: the same input gives the same bytes, on every machine and in every life.

The input is data, never markup: it reaches the template as one JSON string and is set as text, so that
nothing in it can run, include a file or change the layout. What makes PDFs differ from run to run is pinned:
the time stamp, the fonts (only those inside the typst package) and the template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, cast
from urllib.parse import urlsplit

from perdure.ports.tool import CallContext, ToolFailed, tool
from perdure.toolbox._provider import INJECTED
from perdure.toolbox.files import StoredFile, store

CREATED_SECONDS = 946_684_800
"""The creation time in every PDF unless the caller names one: 2000-01-01T00:00:00Z, in seconds since 1970."""

_TEMPLATE = """\
#let report = json(bytes(sys.inputs.report))
#set document(title: report.title)
#let number = context counter(page).display("1 / 1", both: true)
#set page(paper: "a4", margin: 25mm, footer: align(center, text(size: 9pt, number)))
#set text(font: "Libertinus Serif", size: 11pt, lang: report.language)
#set par(justify: true)
#show link: set text(fill: rgb("#1a4f8b"))
#align(center, text(size: 20pt, weight: "bold", report.title))
#if report.subtitle != "" { align(center, text(size: 12pt, report.subtitle)) }
#v(1em)
#for section in report.sections {
  heading(level: 1, section.heading)
  for paragraph in section.paragraphs { par(text(paragraph)) }
  if section.link { par(text(size: 9pt)[Source: #link(section.source, text(section.source))]) }
  else if section.source != "" { par(text(size: 9pt)[Source: #text(section.source)]) }
}
"""


class Section(TypedDict):
    """A part of a report; ``source`` says where it comes from, as a URL or in words."""

    heading: str
    paragraphs: list[str]
    source: NotRequired[str]


class _Part(TypedDict):
    heading: str
    paragraphs: list[str]
    source: str
    link: bool


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ToolFailed(f"{where} must be text, not {type(value).__name__}", retry=False)
    return value


def _part(section: Mapping[str, object], number: int) -> _Part:
    where = f"section {number}"
    paragraphs = section.get("paragraphs")
    if not isinstance(paragraphs, list | tuple):
        raise ToolFailed(f"{where}: paragraphs must be a list of texts", retry=False)
    source = _text(section.get("source") or "", f"{where}: source")
    return {
        "heading": _text(section.get("heading"), f"{where}: heading"),
        "paragraphs": [_text(item, f"{where}: a paragraph") for item in cast(Sequence[object], paragraphs)],
        "source": source,
        # Only what a reader may safely click becomes a link; "javascript:" or "file:" stays plain words.
        "link": urlsplit(source).scheme in ("http", "https"),
    }


def _render(report: dict[str, object], created_seconds: int) -> bytes:
    import typst

    compiler = typst.Compiler(ignore_system_fonts=True)
    made = compiler.compile(
        input=_TEMPLATE.encode("utf-8"),
        format="pdf",
        sys_inputs={"report": json.dumps(report, ensure_ascii=False)},
        timestamp=created_seconds,
    )
    if not isinstance(made, bytes):
        raise ToolFailed("typst made no PDF", retry=False)
    return made


@tool(side_effect_class="local")
def render_pdf(
    title: str,
    sections: list[Section],
    output: str = "report.pdf",
    subtitle: str = "",
    language: str = "en",
    created_seconds: int = CREATED_SECONDS,
    *,
    call: CallContext = INJECTED,
) -> StoredFile:
    """Write a PDF report into the workspace and return its path, SHA-256 and size.

    The fonts inside typst cover Latin, Greek and Cyrillic; characters of other scripts are left blank.

    Args:
        title: set at the top and in the document's properties.
        sections: each ``{"heading": …, "paragraphs": […], "source": …}``; plain text, no markup is read.
        output: path in the workspace.
        subtitle: a line below the title.
        language: ISO 639 code, for hyphenation.
        created_seconds: the creation time in the PDF, in seconds since 1970; fixed unless you pass one.

    Raises:
        ToolFailed: a section lacks a field, or ``output`` leads out of the workspace.
    """
    report: dict[str, object] = {
        "title": title,
        "subtitle": subtitle,
        "language": language,
        "sections": [_part(section, number) for number, section in enumerate(sections, start=1)],
    }
    return store(call.workspace, output, _render(report, created_seconds))
