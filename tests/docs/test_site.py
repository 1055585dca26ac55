"""The site's pages are the repository's pages, and its pictures are the tables of transitions."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from perdure.core.transitions import CALL_TRANSITIONS, RUN_TRANSITIONS, CallEvent
from perdure.model.toolcall import CallStatus
from tools.diagrams import CALL_PLACES, drawn
from tools.site import ROOT, diagrams, stage


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    stage(ROOT, folder)
    return folder


def test_every_page_of_the_repository_is_a_page_of_the_site(pages: Path) -> None:
    wanted = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    assert wanted <= {page.relative_to(pages) for page in pages.rglob("*.md")}
    assert (pages / "index.md").is_file()


def test_readers_do_not_see_what_the_pages_say_to_the_tests(pages: Path) -> None:
    for page in pages.rglob("*.md"):
        for info in re.findall(r"^```(\S.*)$", page.read_text("utf-8"), re.MULTILINE):
            assert re.fullmatch(r"\w+", info), f"{page}: {info}"


def test_the_diagrams_stand_as_pictures_where_they_stood_as_text(pages: Path) -> None:
    page = (pages / "how-it-decides.md").read_text("utf-8")
    assert "mermaid" not in page
    for name in diagrams():
        assert f"(states/{name}.svg)" in page
        assert (pages / "states" / f"{name}.svg").is_file()


@pytest.mark.parametrize(("name", "table"), [("call-states", CALL_TRANSITIONS), ("run-states", RUN_TRANSITIONS)])
def test_a_picture_shows_every_state_and_every_event_of_its_table(name: str, table: dict[object, object]) -> None:
    words = {
        unescape(word) for text in re.findall(r"<text[^>]*>([^<]*)", diagrams()[name]) for word in text.split(", ")
    }
    assert {str(state) for state, _ in table} | {str(event) for _, event in table} | set(
        map(str, table.values())
    ) == words


def test_a_state_that_has_no_place_is_not_left_out_silently() -> None:
    places = {name: place for name, place in CALL_PLACES.items() if name != "running"}
    table = {(CallStatus.PREPARED, CallEvent.DISPATCH): CallStatus.RUNNING}
    with pytest.raises(KeyError, match="running"):
        drawn(table, places, [], "")


def test_every_page_can_be_reached_by_the_navigation_but_for_the_choices_that_their_index_lists(pages: Path) -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    there = {str(page.relative_to(pages)) for page in pages.rglob("*.md")}
    beside = {"contributing.md", "security-reports.md"}
    assert {page for page in there if not re.match(r"design/\d", page)} - beside == set(listed)
