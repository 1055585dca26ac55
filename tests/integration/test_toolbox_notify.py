"""Notify: the same key and bytes on every attempt, and no answer is read as more than it says."""

from __future__ import annotations

import asyncio
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from perdure.ports.tool import ToolFailed
from perdure.toolbox._provider import OutcomeUnknown
from perdure.toolbox.notify import Notice, notify
from tests.integration.toolbox_support import KEY, closed_port, make_call, serve

DATA = {"b": [1, 2.5, None], "a": "Grüße"}


def post(url: str, data: Any = None, *, attempt: int = 1, timeout_seconds: float = 5.0) -> Notice:
    call = make_call(Path("/nonexistent"), attempt=attempt)
    return asyncio.run(notify.plain(url, "report.ready", data, timeout_seconds, call=call))


def test_two_attempts_send_the_same_key_and_the_same_bytes() -> None:
    with serve({"/hook": (202, {}, b"taken")}) as site:
        first = post(f"{site.url}/hook", DATA)
        second = post(f"{site.url}/hook", dict(reversed(DATA.items())), attempt=2)
        one, two = site.requests
    assert first == second == {"status": 202, "response": "taken"}
    assert one.method == "POST"
    assert one.headers["idempotency-key"] == two.headers["idempotency-key"] == KEY
    assert one.body == two.body
    assert one.headers["content-type"] == "application/json"
    assert json.loads(one.body) == {"event": "report.ready", "data": DATA}


@pytest.mark.parametrize(
    ("status", "retry"),
    [
        (400, False),
        (401, False),
        (404, False),
        (410, False),
        (422, False),
        (425, True),
        (429, True),
        (308, False),
    ],
)
def test_a_refusal_is_definite_at_first_and_open_after_a_lost_answer(status: int, retry: bool) -> None:
    with serve({"/hook": (status, {"Location": "/other"}, b"")}) as site:
        with pytest.raises(ToolFailed) as refusal:
            post(f"{site.url}/hook")
        assert refusal.value.retry is retry
        with pytest.raises(OutcomeUnknown, match="earlier attempt"):
            post(f"{site.url}/hook", attempt=2)
        assert site.paths() == ["/hook", "/hook"]


@pytest.mark.parametrize("status", [302, 303, 408, 409, 500, 502, 503, 504])
def test_an_answer_that_does_not_say_whether_it_was_done_leaves_the_outcome_open(status: int) -> None:
    with serve({"/hook": (status, {"Location": "/other"}, b"")}) as site:
        with pytest.raises(OutcomeUnknown, match=str(status)):
            post(f"{site.url}/hook")
        assert site.paths() == ["/hook"]


def test_nobody_listening_means_nothing_happened() -> None:
    url = f"http://127.0.0.1:{closed_port()}/hook"
    with pytest.raises(ToolFailed) as refusal:
        post(url)
    assert refusal.value.retry is True
    with pytest.raises(OutcomeUnknown):
        post(url, attempt=2)


def test_a_connection_cut_after_the_request_leaves_the_outcome_open() -> None:
    with serve({"/hook": lambda handler: None}) as site:
        with pytest.raises(Exception) as cut:
            post(f"{site.url}/hook")
        assert len(site.requests) == 1
    assert not isinstance(cut.value, ToolFailed)


def test_a_late_answer_leaves_the_outcome_open() -> None:
    import threading

    release = threading.Event()

    def route(handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        release.wait(4)
        return 200, {}, b""

    with serve({"/hook": route}) as site:
        with pytest.raises(Exception) as late:
            post(f"{site.url}/hook", timeout_seconds=0.2)
        release.set()
    assert not isinstance(late.value, ToolFailed)


def test_a_done_whose_body_is_cut_short_is_still_done() -> None:
    def route(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"part")

    with serve({"/hook": route}) as site:
        assert post(f"{site.url}/hook") == {"status": 200, "response": "part"}


def test_of_a_long_answer_the_beginning_is_kept() -> None:
    with serve({"/hook": (200, {}, b"x" * 100_000)}) as site:
        assert post(f"{site.url}/hook")["response"] == "x" * 16384


def test_the_token_goes_only_to_the_address_of_the_same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve({"/hook": (200, {}, b"")}) as site:
        monkeypatch.setenv("PERDURE_NOTIFY_URL", f"{site.url}/hook")
        monkeypatch.setenv("PERDURE_NOTIFY_TOKEN", "s3cret")
        post("")
        post(f"{site.url}/hook")
        assert [request.headers.get("authorization") for request in site.requests] == ["Bearer s3cret", None]
    monkeypatch.delenv("PERDURE_NOTIFY_URL")
    with pytest.raises(ToolFailed, match="PERDURE_NOTIFY_URL"):
        post("")


@pytest.mark.parametrize("data", [float("nan"), {"x": object()}, "\ud800"])
def test_what_is_no_json_is_not_sent(data: Any) -> None:
    with serve({"/hook": (200, {}, b"")}) as site:
        with pytest.raises(ToolFailed) as refusal:
            post(f"{site.url}/hook", data)
        assert refusal.value.retry is False
        assert site.requests == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "nonsense", "http://"])
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(ToolFailed) as refusal:
        post(url)
    assert refusal.value.retry is False


def test_it_is_declared_as_keyed_for_a_day() -> None:
    declared = notify.declaration
    assert (declared.side_effect_class, declared.scope) == ("external", ("url", "event"))
    assert declared.key_ttl_seconds == 86400
