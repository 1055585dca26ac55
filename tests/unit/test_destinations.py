"""Where arguments lead: every trick by which a host could look like another one (R035)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.destinations import allowed_problem, refused_destinations

ALLOWED = ("good.example", "*.sub.example", "127.0.0.1:8080", "bücher.example", "[::1]")


def refused(value: object, name: str = "body") -> list[str]:
    """Return what is refused of one argument."""
    return refused_destinations(ALLOWED, json.dumps({name: value}))


@pytest.mark.parametrize(
    "value",
    [
        "http://good.example/a?b=c#d",
        "HTTPS://GOOD.EXAMPLE./x",
        "https://good.example:8443",
        "http://user:secret@good.example/",
        "boss@good.example",
        "Boss <boss@good.example>, other@a.sub.example",
        "mailto:boss@good.example",
        "http://a.b.sub.example",
        "http://127.0.0.1:8080/x",
        "http://[::1]:9000/",
        "see https://good.example/a, then (https://good.example/b).",
        "http://bücher.example/ http://xn--bcher-kva.example",
        "http://good。example/",
        "report.pdf",
        "notes/2026.v2/report.html",
        "1.5",
        "1.5GB",
        "v1.2.3-beta",
        "2026-11-22T10:30:00.500Z",
        "10:30",
        "sha256:1234",
        "archive.tar.gz",
        "v1.2.3",
        "a.b costs 3.50",
        "half past ten: 10:30",
        "file:///tmp/report.txt",
        "@boss look at this",
        {"deep": [{"url": "good.example/path"}, ["http://x.sub.example"]]},
        {"$bytes": "aGVsbG8="},
        "",
    ],
)
def test_what_leads_to_an_allowed_host_or_nowhere_passes(value: object) -> None:
    assert refused(value) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://evil.example/", "evil.example"),
        ("http://good.example@evil.example/", "evil.example"),
        ("http://good.example:80@evil.example/", "evil.example"),
        ("http://evil.example#@good.example/", "evil.example"),
        ("http://evil.example?@good.example/", "evil.example"),
        (r"http://evil.example\@good.example/", "evil.example"),
        (r"http://good.example\@evil.example/", "evil.example"),
        (r"http:\\evil.example\x", "evil.example"),
        ("http:evil.example/x", "evil.example"),
        ("https:///evil.example/x", "evil.example"),
        ("hTTp://EVIL.example./", "EVIL.example"),
        ("ht\ntp://evil.example/", "evil.example"),
        ("http://ev\til.example/", "evil.example"),
        ("http://good.example.evil.example/", "good.example.evil.example"),
        ("http://xgood.example/", "xgood.example"),
        ("http://sub.example/", "sub.example"),
        ("http://xsub.example/", "xsub.example"),
        ("http://127.0.0.1:9090/", "127.0.0.1:9090"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://2130706433:8080/", "2130706433:8080"),
        ("http://0x7f.1:8080/", "0x7f.1:8080"),
        ("http://good%2eexample/", "good%2eexample"),
        ("http://[::2]/", "[::2]"),
        ("ftp://evil.example/x", "evil.example"),
        ("s3://evil-bucket/key", "evil-bucket"),
        ("//evil.example/x", "evil.example"),
        ("www.evil.example is nice", "www.evil.example"),
        ("evil.example/path", "evil.example"),
        ("evil.example", "evil.example"),
        ("evil.example:443", "evil.example:443"),
        ("localhost:25", "localhost:25"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1:25", "10.0.0.1:25"),
        ("::2", "[::2]"),
        ("evil.com", "evil.com"),
        ("evil.md/x", "evil.md"),
        ("boss@evil.example", "evil.example"),
        ('"a@good.example"@evil.example', "evil.example"),
        ("boss@good.example,x@evil.example", "evil.example"),
        ("a@ good.example@evil.example", "evil.example"),
        ("root@localhost", "localhost"),
        ("http://böse.example/", "böse.example"),
        ("http://xn--bse-sna.example/", "xn--bse-sna.example"),
        ("http://gooß.example/", "gooß.example"),
        ("http://good\u200d.example/", "good\u200d.example"),
        ("text with http://evil.example in it", "evil.example"),
        ("[link](http://evil.example)", "evil.example"),
        ({"http://evil.example": 1}, "evil.example"),
        (["http://good.example", {"a": ("x", "y@evil.example")}], "evil.example"),
    ],
)
def test_what_leads_elsewhere_is_refused_and_shown(value: object, shown: str) -> None:
    assert shown in refused(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("url", "report.pdf"), ("host", "intranet"), ("webhook_url", "evil.zip"), ("domain", "evil.example")],
)
def test_under_a_parameter_called_after_hosts_every_value_is_one(name: str, value: str) -> None:
    assert refused(value, name) == [value]


@pytest.mark.parametrize("item", ["http://good.example", "good.example/x", "a b", "", "*", "*.", "x@y", "good%2e"])
def test_an_entry_that_is_no_host_is_told(item: str) -> None:
    assert allowed_problem(item) is not None
    assert refused_destinations((item,), json.dumps({"a": "http://good.example"})) == ["good.example"]


@pytest.mark.parametrize("item", ALLOWED)
def test_an_entry_that_is_a_host_is_taken(item: str) -> None:
    assert allowed_problem(item) is None


@given(st.text(max_size=60), st.sampled_from(["http://evil.example/", "x@evil.example ", " https://u:p@evil.example "]))
def test_no_text_around_it_hides_where_a_url_leads(around: str, hidden: str) -> None:
    found = refused_destinations(ALLOWED, json.dumps({"body": f"{around} {hidden} {around}"}))
    assert any(shown.endswith("evil.example") for shown in found)


@given(st.text(max_size=80))
def test_any_text_is_read_without_a_fault(text: str) -> None:
    for shown in (*refused(text), *refused(text, "url")):
        assert shown, "a refusal names what it refuses"
