"""Upload against stores that answer oddly: one request is one request, and only a clear "no" is a failure.

How it works with a real store is in ``test_toolbox_world.py``.
"""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from perdure.ports.tool import ToolFailed
from perdure.toolbox._provider import OutcomeUnknown
from perdure.toolbox.upload import upload
from tests.integration.toolbox_support import Reply, Site, make_call, serve

TARGET = "/box/a.txt"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_S3_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("PERDURE_S3_SECRET_ACCESS_KEY", "SK")


def put(site: Site, workspace: Path, attempt: int = 1) -> object:
    (workspace / "a.txt").write_text("content")
    call = make_call(workspace, attempt=attempt)
    return asyncio.run(upload.plain("a.txt", "s3://box/a.txt", endpoint=site.url, timeout_seconds=2.0, call=call))


def store_that(answers_put_with: Reply | None, head: Reply | None = (404, {}, b"")) -> dict[str, object]:
    def route(handler: BaseHTTPRequestHandler) -> Reply | None:
        return head if handler.command == "HEAD" else answers_put_with

    return {TARGET: route}


def methods(site: Site) -> list[str]:
    return [request.method for request in site.requests]


@pytest.mark.parametrize("reply", [None, (500, {}, b""), (503, {}, b""), (408, {}, b""), (409, {}, b"")])
def test_an_unclear_answer_to_the_put_leaves_the_outcome_open_and_is_not_repeated(
    tmp_path: Path, reply: Reply | None
) -> None:
    with serve(store_that(reply)) as site:  # type: ignore[arg-type]
        with pytest.raises(OutcomeUnknown):
            put(site, tmp_path)
        assert methods(site).count("PUT") == 1


@pytest.mark.parametrize(("status", "retry"), [(400, False), (403, False), (404, False), (429, True)])
def test_a_refused_put_means_nothing_was_stored_unless_an_answer_was_lost(
    tmp_path: Path, status: int, retry: bool
) -> None:
    with serve(store_that((status, {}, b""))) as site:  # type: ignore[arg-type]
        with pytest.raises(ToolFailed) as refusal:
            put(site, tmp_path)
        assert refusal.value.retry is retry
        with pytest.raises(OutcomeUnknown, match="earlier attempt"):
            put(site, tmp_path, attempt=2)
        assert methods(site) == ["HEAD", "PUT"] * 2


def test_a_store_that_fails_at_the_look_is_not_written_to(tmp_path: Path) -> None:
    with serve(store_that((200, {}, b""), head=(500, {}, b""))) as site:  # type: ignore[arg-type]
        with pytest.raises(ToolFailed) as refusal:
            put(site, tmp_path)
        assert refusal.value.retry is True
        assert methods(site) == ["HEAD"]


def test_without_the_right_to_look_the_put_decides_and_carries_its_condition_and_key(tmp_path: Path) -> None:
    with serve(store_that((200, {"ETag": '"e"'}, b""), head=(403, {}, b""))) as site:  # type: ignore[arg-type]
        assert put(site, tmp_path)["already_existed"] is False  # type: ignore[index]
        sent = site.requests[-1]
    assert (sent.method, sent.path, sent.body) == ("PUT", TARGET, b"content")
    assert sent.headers["if-none-match"] == "*"
    assert sent.headers["content-type"] == "text/plain"
    assert sent.headers["x-amz-meta-perdure-call"] == make_call(tmp_path).idempotency_key


def test_a_missing_file_or_secret_is_named_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve({}) as site:
        with pytest.raises(ToolFailed, match=r"no file 'b\.txt'"):
            asyncio.run(upload.plain("b.txt", "s3://box/a.txt", endpoint=site.url, call=make_call(tmp_path)))
        monkeypatch.delenv("PERDURE_S3_SECRET_ACCESS_KEY")
        with pytest.raises(ToolFailed, match="PERDURE_S3_SECRET_ACCESS_KEY"):
            put(site, tmp_path)
        assert site.requests == []
