"""The judge is judged first: every mode of the provider, against a real process."""

import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from perdure.testing.provider.client import Provider, ProviderError
from perdure.testing.provider.request import get, post
from tests.unit.provider_support import events, keyed

DAY_SECONDS = 86_400


def test_create_is_done_once_for_a_name(provider: Provider) -> None:
    first = post(f"{provider.url}/create", {"name": "a/b c.pdf", "body": "one", "what": "report"})
    second = post(f"{provider.url}/create", {"name": "a/b c.pdf", "body": "two", "what": "report"})
    sha256 = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    assert first == (201, {"id": "p1", "name": "a/b c.pdf", "sha256": sha256})
    assert second == (412, {"error": "exists", "id": "p1", "name": "a/b c.pdf", "sha256": sha256})
    assert get(f"{provider.url}/create/a/b%20c.pdf") == (
        200,
        {"id": "p1", "name": "a/b c.pdf", "sha256": sha256, "body": "one", "what": "report"},
    )
    assert get(f"{provider.url}/create/other")[0] == 404
    assert provider.counts() == {"report": 1}


def test_keyed_repeats_its_reply_and_refuses_another_body(provider: Provider) -> None:
    assert keyed(provider, "k1", {"cents": 5, "what": "pay"}) == (201, False, {"id": "p1"})
    assert keyed(provider, "k1", {"what": "pay", "cents": 5}) == (201, True, {"id": "p1"})
    assert keyed(provider, "k1", {"cents": 6, "what": "pay"})[0] == 422
    assert keyed(provider, "k2", {"cents": 5, "what": "pay"}) == (201, False, {"id": "p2"})
    assert post(f"{provider.url}/keyed", {"cents": 5})[0] == 400
    assert events(provider) == ["effect", "replayed", "key_mismatch", "effect"]
    assert [line["key"] for line in provider.effects("keyed")] == ["k1", "k2"]


@pytest.mark.parametrize("through", ["query", "setting"])
def test_a_key_is_forgotten_after_its_time_to_live(provider: Provider, through: str) -> None:
    query = f"?ttl={DAY_SECONDS}" if through == "query" else ""
    if through == "setting":
        provider.set(key_ttl_seconds=DAY_SECONDS)
    keyed(provider, "k", {"n": 1}, query)
    provider.set(clock_ahead_seconds=DAY_SECONDS - 60)
    assert keyed(provider, "k", {"n": 1}, query) == (201, True, {"id": "p1"})
    provider.set(clock_ahead_seconds=DAY_SECONDS + 60)
    assert keyed(provider, "k", {"n": 1}, query) == (201, False, {"id": "p2"})
    assert keyed(provider, "k", {"n": 1}, query) == (201, True, {"id": "p2"})


def test_keys_are_forgotten_on_demand(provider: Provider) -> None:
    for key in ("a", "b", "c"):
        keyed(provider, key, {"what": key})
    assert provider.forget_keys("a") == 1
    assert provider.forget_keys("a") == 0
    assert keyed(provider, "a", {"what": "a"})[1] is False
    assert keyed(provider, "b", {"what": "b"})[1] is True
    assert provider.forget_keys() == 3
    assert keyed(provider, "b", {"what": "b"})[1] is False
    assert provider.counts("keyed") == {"a": 2, "b": 2, "c": 1}


def test_the_same_key_in_flight_is_a_conflict(provider: Provider, background: ThreadPoolExecutor) -> None:
    provider.control("keyed", hold_before_effect=True)
    first = background.submit(keyed, provider, "k", {"what": "pay"})
    provider.wait_for("held", what="pay")
    assert keyed(provider, "k", {"what": "pay"})[0] == 409
    assert provider.effects() == []
    assert provider.release("keyed") == 1
    assert first.result(5) == (201, False, {"id": "p1"})
    assert keyed(provider, "k", {"what": "pay"}) == (201, True, {"id": "p1"})
    assert provider.counts() == {"pay": 1}


def test_searchable_takes_everything_and_finds_all_of_it_by_marker(provider: Provider) -> None:
    for what in ("one", "two", "one"):
        assert post(f"{provider.url}/searchable", {"marker": "m-1", "what": what})[0] == 201
    post(f"{provider.url}/searchable", {"marker": "m-2"})
    found = get(f"{provider.url}/search?marker=m-1")[1]
    assert [(item["id"], item["what"]) for item in found["items"]] == [
        ("p1", "one"),
        ("p2", "two"),
        ("p3", "one"),
    ]
    assert found["next_page"] is None
    assert get(f"{provider.url}/search?marker=m-3")[1]["items"] == []
    assert post(f"{provider.url}/searchable", {"what": "no marker"})[0] == 400
    assert provider.counts("searchable") == {"one": 2, "two": 1, "m-2": 1}


def test_search_gives_pages(provider: Provider) -> None:
    provider.set(search_page_size=2)
    for _ in range(5):
        post(f"{provider.url}/searchable", {"marker": "m"})
    page, ids = 1, []
    while page is not None:
        answer = get(f"{provider.url}/search?marker=m&page={page}")[1]
        ids.append([item["id"] for item in answer["items"]])
        page = answer["next_page"]
    assert ids == [["p1", "p2"], ["p3", "p4"], ["p5"]]


def test_search_lags_and_misses(provider: Provider) -> None:
    provider.set(search_lag_seconds=600)
    post(f"{provider.url}/searchable", {"marker": "m"})
    assert get(f"{provider.url}/search?marker=m")[1]["items"] == []
    provider.set(clock_ahead_seconds=601, search_miss_next=2)
    found = [len(get(f"{provider.url}/search?marker=m")[1]["items"]) for _ in range(3)]
    assert found == [0, 0, 1]


def test_plain_does_it_again_every_time(provider: Provider) -> None:
    ids = [post(f"{provider.url}/plain", {"what": "mail", "to": "b@example.org"})[1]["id"] for _ in range(3)]
    assert ids == ["p1", "p2", "p3"]
    assert provider.counts() == provider.counts("plain") == {"mail": 3}
    assert provider.effects("plain", "mail")[0]["body"] == {"what": "mail", "to": "b@example.org"}


def test_reads_are_logged_and_are_not_effects(provider: Provider) -> None:
    assert get(f"{provider.url}/read?x=7") == (200, {"x": "7", "value": "value of 7"})
    assert get(f"{provider.url}/read?x=7&what=page")[0] == 200
    assert provider.effects() == [] and provider.counts() == {}
    assert provider.counts("read") == {"7": 1, "page": 1}


@pytest.mark.parametrize("lost", ["drop_reply_after_effect", "cut_reply_after_effect"])
def test_reply_dropped_or_cut_short_after_the_effect(provider: Provider, lost: str) -> None:
    provider.control("plain", **{lost: True})
    with pytest.raises(ConnectionError):
        post(f"{provider.url}/plain", {"what": "mail"})
    assert provider.counts() == {"mail": 1}
    assert post(f"{provider.url}/plain", {"what": "mail"})[0] == 201


def test_status_after_the_effect(provider: Provider) -> None:
    provider.control("keyed", status_after_effect=500)
    assert keyed(provider, "k", {"what": "pay"})[0] == 500
    assert keyed(provider, "k", {"what": "pay"}) == (201, True, {"id": "p1"})
    provider.control("keyed", status_after_effect=500, status_is_stored=True)
    assert keyed(provider, "k2", {"what": "pay"})[0] == 500
    assert keyed(provider, "k2", {"what": "pay"})[:2] == (500, True)
    assert provider.counts() == {"pay": 2}


@pytest.mark.parametrize("status", [400, 429, 503])
def test_rejected_before_the_effect(provider: Provider, status: int) -> None:
    provider.control("plain", reject_before_effect=status, next=2)
    assert [post(f"{provider.url}/plain", {"what": "mail"})[0] for _ in range(3)] == [status, status, 201]
    assert provider.counts() == {"mail": 1}
    assert events(provider) == ["rejected", "rejected", "effect"]


def test_reads_and_searches_can_fail_too(provider: Provider) -> None:
    provider.control("read", reject_before_effect=503)
    provider.control("search", drop_reply_after_effect=True)
    provider.control("create", method="GET", reject_before_effect=500)
    assert get(f"{provider.url}/read?x=1")[0] == 503
    with pytest.raises(ConnectionError):
        get(f"{provider.url}/search?marker=m")
    assert post(f"{provider.url}/create", {"name": "n"})[0] == 201
    assert get(f"{provider.url}/create/n")[0] == 500
    assert get(f"{provider.url}/create/n")[0] == 200


@pytest.mark.parametrize("moment", ["before", "after"])
def test_delays_show_at_the_client_as_a_timeout_and_the_effect_lands(provider: Provider, moment: str) -> None:
    provider.control("plain", **{f"delay_{moment}_effect_seconds": 0.3})
    with pytest.raises(TimeoutError):
        post(f"{provider.url}/plain", {"what": "mail"}, timeout_seconds=0.05)
    provider.wait_for("effect")
    assert events(provider) == (["delayed", "effect"] if moment == "before" else ["effect", "delayed"])


def test_hold_keeps_the_reply_back_until_released(provider: Provider, background: ThreadPoolExecutor) -> None:
    provider.control("plain", hold=True, next=2)
    replies: list[Future[tuple[int, Any]]] = [
        background.submit(post, f"{provider.url}/plain", {"what": what}) for what in ("a", "b")
    ]
    provider.wait_for("held", count=2)
    assert provider.state()["held"] == 2
    assert provider.counts() == {"a": 1, "b": 1}
    assert not any(reply.done() for reply in replies)
    assert provider.release(what="b") == 1
    assert replies[1].result(5)[0] == 201
    assert not replies[0].done()
    assert provider.release() == 1
    assert replies[0].result(5)[0] == 201


def test_the_effect_of_a_killed_sender_lands_when_released(provider: Provider) -> None:
    provider.control("plain", hold_before_effect=True)
    code = f"from perdure.testing.provider.request import post; post({provider.url + '/plain'!r}, {{'what': 'mail'}})"
    sender = subprocess.Popen([sys.executable, "-c", code])
    provider.wait_for("held")
    sender.kill()
    sender.wait()
    assert provider.effects() == []
    assert provider.release() == 1
    provider.wait_for("effect")
    assert provider.counts() == {"mail": 1}


def test_an_effect_lands_late(provider: Provider) -> None:
    provider.control("plain", land_late_seconds=0.05)
    assert post(f"{provider.url}/plain", {"what": "mail"})[0] == 504
    provider.wait_for("effect")
    provider.control("plain", land_late_on_release=True, drop_reply_after_effect=True)
    with pytest.raises(ConnectionError):
        post(f"{provider.url}/plain", {"what": "mail"})
    provider.wait_for("held")
    assert provider.counts() == {"mail": 1}
    provider.release()
    provider.wait_for("effect", count=2)
    assert [line["late"] for line in provider.effects()] == [True, True]


def test_a_late_keyed_effect_is_in_flight_until_it_lands(provider: Provider) -> None:
    provider.control("keyed", land_late_on_release=True)
    assert keyed(provider, "k", {"what": "pay"})[0] == 504
    assert keyed(provider, "k", {"what": "pay"})[0] == 409
    provider.wait_for("held")
    provider.release()
    provider.wait_for("effect")
    assert keyed(provider, "k", {"what": "pay"}) == (201, True, {"id": "p1"})


def test_a_late_create_does_not_overwrite(provider: Provider) -> None:
    provider.control("create", land_late_on_release=True)
    assert post(f"{provider.url}/create", {"name": "n", "body": "late"})[0] == 504
    assert post(f"{provider.url}/create", {"name": "n", "body": "early"})[0] == 201
    provider.wait_for("held")
    provider.release()
    provider.wait_for("exists")
    assert get(f"{provider.url}/create/n")[1]["body"] == "early"
    assert provider.counts() == {"n": 1}


def test_faults_choose_their_requests(provider: Provider) -> None:
    provider.control("plain", what="b", skip=1, reject_before_effect=503)
    statuses = [post(f"{provider.url}/plain", {"what": what})[0] for what in ("a", "b", "a", "b", "b")]
    assert statuses == [201, 201, 201, 503, 201]
    provider.control("plain", next=None, reject_before_effect=429)
    assert [post(f"{provider.url}/plain", {"what": "c"})[0] for _ in range(3)] == [429, 429, 429]
    provider.clear_faults()
    assert provider.state()["faults_left"] == 0
    assert post(f"{provider.url}/plain", {"what": "c"})[0] == 201


def test_faults_are_carried_out_in_the_order_given(provider: Provider) -> None:
    provider.control("plain", reject_before_effect=400)
    provider.control("plain", reject_before_effect=503)
    assert [post(f"{provider.url}/plain", {})[0] for _ in range(3)] == [400, 503, 201]


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"kind": "plain", "drop_replies": True}, "unknown fault: drop_replies"),
        ({"kind": "mail", "hold": True}, "path is '/mail'"),
        ({"kind": "plain"}, "does nothing"),
        ({"kind": "plain", "hold": 1}, "hold has a value of the wrong kind"),
        ({"kind": "plain", "reject_before_effect": True}, "wrong kind"),
        ({"kind": "plain", "hold": True, "next": 0}, "next has a value of the wrong kind"),
        ({"kind": "plain", "delay_before_effect_seconds": -1}, "wrong kind"),
        ({"kind": "plain", "reject_before_effect": 503, "hold": True}, "excludes"),
        ({"kind": "read", "land_late_seconds": 1}, "only an effect can land late"),
    ],
)
def test_a_mistyped_fault_is_an_error(provider: Provider, fault: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ProviderError, match=complaint):
        provider.control(**fault)
    assert provider.state()["faults_left"] == 0


def test_mistyped_settings_and_doors_are_errors(provider: Provider) -> None:
    with pytest.raises(ProviderError, match="unknown setting: ttl"):
        provider.set(ttl=3)
    with pytest.raises(ProviderError, match="search_lag_seconds must be a number"):
        provider.set(search_lag_seconds="3")
    assert get(f"{provider.url}/control/nothing")[0] == 404
    assert get(f"{provider.url}/nothing")[0] == 404
    assert get(f"{provider.url}/keyed")[0] == 404


def test_the_control_door_gives_log_and_counts(provider: Provider) -> None:
    post(f"{provider.url}/plain", {"what": "mail"})
    get(f"{provider.url}/read?x=1")
    assert get(f"{provider.url}/control/log")[1]["lines"] == provider.log()
    assert get(f"{provider.url}/control/counts")[1] == {"/plain": {"mail": 1}, "/read": {"1": 1}}
    assert [line["n"] for line in provider.log()] == [1, 2]


def test_waiting_in_vain_is_an_error(provider: Provider) -> None:
    with pytest.raises(ProviderError, match="seen 0 of 1 times"):
        provider.wait_for("effect", timeout_seconds=0.05)
