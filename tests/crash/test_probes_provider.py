"""What a provider may answer, or not answer: lost and cut replies, 409, 422, 5xx after the effect, searches that lag and have pages."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import perdure
from tests.crash.child import Order
from tests.crash.cutter import Cutter
from tests.crash.loop import Bench
from tests.crash.support import AFTER_TOOL, Ended
from tests.crash.test_planted_owners import counts, order_of

IN_DOUBT = 7
KIND = {
    "keyed": "keyed",
    "reworded": "keyed",
    "searched": "searchable",
    "searched_oldest": "searchable",
    "searched_late": "searchable",
    "plain": "plain",
}
SETTLED_BY_ITSELF = ["keyed", "searched"]
LOST: dict[str, dict[str, Any]] = {
    "the reply is dropped": {"drop_reply_after_effect": True},
    "500 after the effect": {"status_after_effect": 500},
    "504, and it lands meanwhile": {"status_after_effect": 504, "delay_after_effect_seconds": 0.1},
    "503 before anything": {"reject_before_effect": 503},
}


@pytest.fixture
def settings(bench: Bench) -> Iterator[Bench]:
    """A bench whose provider may be set up otherwise."""
    yield bench
    bench.provider.set(search_lag_seconds=0, search_miss_next=0, search_page_size=100, key_ttl_seconds=None)


def one(bench: Bench, tool: str, what: str = "one", job: str = "probes:one", **how: Any) -> tuple[Order, Ended]:
    order = order_of(bench, job, None, tool=tool)
    if how:
        bench.provider.control(KIND[tool], what=f"honest:{what}", **how)
    return order, bench.live(order, {})


@pytest.mark.parametrize("how", list(LOST))
@pytest.mark.parametrize("tool", SETTLED_BY_ITSELF)
def test_an_answer_that_tells_nothing_is_settled_without_a_second_effect(bench: Bench, tool: str, how: str) -> None:
    order, ended = one(bench, tool, **LOST[how])
    assert (ended.exit_code, counts(bench, order)) == (0, {"one": 1}), ended


@pytest.mark.parametrize("how", list(LOST))
def test_an_answer_that_tells_nothing_is_a_question_where_nobody_else_can_tell(bench: Bench, how: str) -> None:
    order, ended = one(bench, "plain", **LOST[how])
    assert (ended.exit_code, ended.says["reason"]) == (IN_DOUBT, "in_doubt"), ended
    happened = counts(bench, order) == {"one": 1}
    assert bench.person(order).answer(ended.says["waiting_for"]) == ["happened" if happened else "did_not_happen"]
    assert bench.live(replace(order, do="resume"), {}).exit_code == 0
    assert counts(bench, order) == {"one": 1}


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize("tool", [*SETTLED_BY_ITSELF, "plain"])
def test_an_answer_that_ends_in_the_middle_of_its_body_is_no_answer(bench: Bench, tool: str, reset: bool) -> None:
    with Cutter(bench.provider.url, cuts=1, reset=reset) as door:
        order = order_of(bench, "probes:one", None, tool=tool)
        order = replace(order, inputs={**order.inputs, "url": door.url})
        ended = bench.live(order, {})
        assert door.cut == 1
    assert ended.exit_code == (IN_DOUBT if tool == "plain" else 0), ended
    assert counts(bench, order) == {"one": 1}


def test_a_key_whose_request_is_still_in_progress_is_sent_again_until_it_is_answered(bench: Bench) -> None:
    """409: the first request has not landed yet, and its sender was killed."""
    order = order_of(bench, "probes:one", None, tool="keyed")
    bench.provider.control("keyed", what="honest:one", delay_after_effect_seconds=0.01)
    assert bench.live(order, {AFTER_TOOL: "keyed"}).crashed_at
    bench.provider.control("keyed", what="honest:one", reject_before_effect=409, next=2)
    ended = bench.live(replace(order, do="resume"), {})
    assert (ended.exit_code, counts(bench, order)) == (0, {"one": 1}), ended


def test_a_key_that_the_provider_knows_with_another_body_proves_nothing(bench: Bench) -> None:
    """422: an earlier request with this key was carried out, and its answer is lost for good; a person is asked."""
    order, ended = one(bench, "reworded", drop_reply_after_effect=True)
    assert (ended.exit_code, ended.says["reason"]) == (IN_DOUBT, "in_doubt"), ended
    assert counts(bench, order) == {"one": 1}
    mismatches = [line for line in bench.log.lines() if line["event"] == "key_mismatch"]
    assert len(mismatches) == 2, "it was tried as often as it may be, and each try was refused"
    assert bench.person(order).answer(ended.says["waiting_for"]) == ["happened"]
    assert bench.live(replace(order, do="resume"), {}).exit_code == 0
    assert counts(bench, order) == {"one": 1}


def test_a_key_that_the_provider_has_forgotten_is_not_sent_again(settings: Bench) -> None:
    order = order_of(settings, "probes:one", None, tool="keyed")
    settings.provider.set(key_ttl_seconds=3600)
    assert settings.live(order, {AFTER_TOOL: "keyed"}).crashed_at
    settings.provider.set(clock_ahead_seconds=7200)
    late = settings.live(replace(order, do="resume", clock_ahead_seconds=7200.0), {})
    settings.provider.set(clock_ahead_seconds=0)
    assert (late.exit_code, counts(settings, order)) == (IN_DOUBT, {"one": 1}), late


def test_a_later_time_that_another_run_has_seen_counts_after_the_clock_was_set_back(settings: Bench) -> None:
    order = order_of(settings, "probes:one", None, tool="keyed")
    settings.provider.set(key_ttl_seconds=3600)
    assert settings.live(order, {AFTER_TOOL: "keyed"}).crashed_at
    other = replace(order, run_id="other", clock_ahead_seconds=7200.0, inputs={**order.inputs, "tool": "plain"})
    assert settings.live(other, {AFTER_TOOL: "plain"}).crashed_at
    settings.provider.set(clock_ahead_seconds=7200)
    back = settings.live(replace(order, do="resume"), {})
    settings.provider.set(clock_ahead_seconds=0)
    assert back.exit_code == IN_DOUBT, back
    assert [line["what"] for line in settings.log.lines() if line["path"] == "/keyed"] == ["honest:one"]


@pytest.mark.parametrize("missed", [0, 1])
def test_a_search_that_is_behind_is_asked_again_when_its_lag_is_over(settings: Bench, missed: int) -> None:
    settings.provider.set(search_lag_seconds=0.2, search_miss_next=missed)
    order, ended = one(settings, "searched_late", drop_reply_after_effect=True)
    assert (ended.exit_code, counts(settings, order)) == (0, {"one": 1}), ended
    assert sum(line["event"] == "search" for line in settings.log.lines()) >= 2


@pytest.mark.parametrize(("tool", "exit_code"), [("listed", IN_DOUBT), ("paged", 0)])
def test_only_a_probe_that_turns_all_pages_can_say_no(settings: Bench, tool: str, exit_code: int) -> None:
    settings.provider.set(search_page_size=1)
    order = order_of(settings, "probes:three_in_a_list", None, tool=tool)
    settings.provider.control("searchable", what="honest:three", drop_reply_after_effect=True)
    ended = settings.live(order, {})
    assert (ended.exit_code, counts(settings, order)["three"]) == (exit_code, 1), ended


@pytest.mark.parametrize(("tool", "found"), [("searched_oldest", 1), ("searched", 0)])
def test_a_search_that_denies_what_was_done_makes_a_second_effect_which_is_shown_where_it_can_be_told(
    settings: Bench, tool: str, found: int
) -> None:
    """No rule protects from such a provider. If the probe names the effect that the ledger knows, nothing tells two apart."""
    settings.provider.set(search_miss_next=2)
    order, ended = one(settings, tool, drop_reply_after_effect=True)
    assert (ended.exit_code, counts(settings, order)) == (0, {"one": 2}), ended
    words = ["runs", "show", "job", "-o", "json", "--state-dir", order.state_dir]
    shown = settings.live(replace(order, do="command", inputs={**order.inputs, "words": words}), {})
    first = next(line["id"] for line in settings.log.lines() if line["event"] == "effect")
    with perdure.open(state_dir=order.state_dir) as engine:
        refs = [item["ref"] for item in engine.call("job.1")["evidence"] if item["says"] == "duplicate_found"]
        told = [item.summary for _, item in engine.inbox()]
    assert (shown.says["duplicates_found"], ended.says["duplicates_found"]) == (found, found)
    assert (refs, ["was done twice" in text for text in told]) == ([first] * found, [True] * found)
