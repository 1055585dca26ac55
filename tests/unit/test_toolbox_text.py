"""Extracting and summarising: what a page says and where it leads, the same every time."""

from __future__ import annotations

import pytest

from perdure.ports.tool import ToolFailed
from perdure.toolbox.extract import extract, page_links
from perdure.toolbox.summarise import summarise

STORY = [
    "The first cable was laid across the ocean in 1858. It carried a greeting of ninety-eight words. "
    "The message took sixteen hours to send. Three weeks later the cable fell silent.",
    "Engineers argued about the cause for years. In conclusion, the insulation had failed under a high "
    "voltage that no one should have used. A better cable followed in 1866 and worked for a long time.",
]
TEXT = "\n\n".join(STORY)
PAGE = (
    "<html><head><title>The First Cable</title></head><body><nav><a href='/'>Home</a> | menu</nav><article>"
    "<h1>The First Cable</h1>" + "".join(f"<p>{part}</p>" for part in STORY) + "<a href='next.html#x'>next</a>"
    "</article><footer>All rights reserved</footer></body></html>"
)


def test_a_page_is_reduced_to_what_a_person_reads() -> None:
    found = extract.plain(PAGE, "http://example.org/d/a.html")
    assert found["title"] == "The First Cable"
    assert STORY[0] in found["text"].split("\n\n")
    assert "menu" not in found["text"] and "rights" not in found["text"]
    assert found["links"] == ["http://example.org/", "http://example.org/d/next.html"]
    assert found == extract.plain(PAGE, "http://example.org/d/a.html")


@pytest.mark.parametrize("html", ["", " ", "<!-- nothing -->", "no markup at all", "<html></html>", "<![x[", "\0"])
def test_a_page_without_content_is_empty_and_no_error(html: str) -> None:
    assert extract.plain(html, "http://example.org/")["links"] == []


def test_links_are_absolute_unique_in_order_and_of_the_web() -> None:
    html = """<?xml version="1.0" encoding="utf-8"?>
    <a href=" b.html ">1</a><a href="/c?x=1&amp;y=2#part">2</a><a href="b.html#again">1</a>
    <a href="mailto:x@example.org">no</a><a href="javascript:f()">no</a><a href="http://[bad">no</a>
    <a name="anchor">no</a><map><area href="//other.example.org/d"></map>"""
    assert page_links(html, "https://example.org/a/") == [
        "https://example.org/a/b.html",
        "https://example.org/c?x=1&y=2",
        "https://other.example.org/d",
    ]
    based = "<base href='/root/'><a href='b'>1</a>"
    assert page_links(based, "https://example.org/a/") == ["https://example.org/root/b"]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_summary_has_at_most_so_many_whole_sentences_in_order(count: int) -> None:
    short = summarise.plain(TEXT, count)
    sentences = [part.strip() for part in short.replace(". ", ".\n").split("\n")]
    assert 1 <= len(sentences) <= count
    places = [TEXT.index(sentence) for sentence in sentences]
    assert places == sorted(places)
    assert short == summarise.plain(TEXT, count)


def test_a_short_text_is_its_own_summary() -> None:
    assert summarise.plain(f"  {STORY[0]}\n", 4) == STORY[0]
    assert summarise.plain("", 3) == ""


def test_a_summary_of_nothing_is_refused() -> None:
    with pytest.raises(ToolFailed):
        summarise.plain(TEXT, 0)


def test_both_are_reads() -> None:
    assert {tool.declaration.side_effect_class for tool in (extract, summarise)} == {"read_only"}
