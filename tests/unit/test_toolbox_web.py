"""The rules of reading the web that need no server: who may be asked, when, and how long to wait."""

from __future__ import annotations

import pytest

from perdure.toolbox._web import _Slots, backoff_seconds, host_allowed, refusal, site_of


def test_a_host_is_asked_once_per_delay_and_other_hosts_do_not_wait() -> None:
    slots = _Slots()
    waits = [slots.reserve("a:80", 100.0) for _ in range(3)]
    assert waits == pytest.approx([0, 100, 200], abs=5)
    assert slots.reserve("b:80", 100.0) == 0
    assert slots.reserve("c:80", 0.0) == slots.reserve("c:80", 0.0) == 0


def test_the_pause_grows_up_to_its_cap_and_the_servers_wish_counts_up_to_another() -> None:
    for failures, longest in ((1, 0.4), (2, 0.8), (3, 1.6), (30, 5.0)):
        pauses = [backoff_seconds(failures) for _ in range(200)]
        assert min(pauses) >= 0 and longest * 0.7 < max(pauses) <= longest
    assert (backoff_seconds(1, "0"), backoff_seconds(1, " 7 "), backoff_seconds(1, "3600")) == (
        0.0,
        7.0,
        10.0,
    )
    assert backoff_seconds(1, "Wed, 21 Oct 2026 07:28:00 GMT") <= 0.4


@pytest.mark.parametrize(
    ("host", "allowed", "expected"),
    [
        ("example.org", {"example.org"}, True),
        ("docs.example.org", {"example.org"}, True),
        ("badexample.org", {"example.org"}, False),
        ("example.org", {"docs.example.org"}, False),
        ("example.org", {"*"}, True),
        ("example.org", set[str](), False),
    ],
)
def test_a_domain_allows_itself_and_what_is_below_it(host: str, allowed: set[str], expected: bool) -> None:
    assert host_allowed(host, frozenset(allowed)) is expected


def test_www_and_case_do_not_make_another_site() -> None:
    assert site_of("HTTPS://WWW.Example.org:8443/a") == "example.org"
    assert refusal("https://example.org/", frozenset({site_of("https://www.example.org/")})) is None
    assert site_of("http://[::1") == ""


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("javascript:alert(1)", "url: only http and https"),
        ("http:///path", "url: only http and https"),
        ("http://h:99999/", "url: Port out of range"),
        ("http://user@example.org/", "url: credentials"),
        ("http://example.com/", "domain: example.com"),
    ],
)
def test_what_may_not_be_asked_is_refused_with_its_reason(url: str, reason: str) -> None:
    assert (refusal(url, frozenset({"example.org"})) or "").startswith(reason)
