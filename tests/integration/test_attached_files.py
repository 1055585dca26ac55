"""A file of the same name with other bytes is another effect: no receipt stands for bytes that were not sent (R054)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext, CallFailed, ToolFailed, UsageError, tool
from perdure.core.identity import args_hash
from perdure.runtime.attached import digests
from perdure.toolbox.mail import send_mail
from perdure.toolbox.upload import upload
from tests.integration.engine_support import Crash, live, open_engine
from tests.integration.job_support import Job
from tests.integration.toolbox_support import smtp_peer


class Post:
    """A post office: what went out, and under which keys; one answer may be lost, with another text in the file then."""

    def __init__(self, **declared: Any) -> None:
        self.sent: list[str] = []
        self.keys: list[str] = []
        self.lost_with: str | None = None

        @tool(name="send", side_effect_class="external", files=["attachments"], **declared)
        def send(to: str, attachments: list[str] | None = None, *, call: CallContext) -> str:
            texts = [(call.workspace / name).read_text("utf-8") for name in attachments or ()]
            self.keys.append(call.idempotency_key)
            self.sent.append(":".join([to, *texts]))
            if self.lost_with is not None:
                (call.workspace / "report.txt").write_text(self.lost_with, "utf-8")
                self.lost_with = None
                raise ConnectionResetError("the answer was lost")
            return f"sent {len(self.sent)}"

        self.send: Any = send


def sending(post: Post, text: str | None, *, then: Exception | None = None) -> Callable[[Any], Any]:
    def main(run: Any) -> Any:
        if text is not None:
            (run.workspace / "report.txt").write_text(text, "utf-8")
        told = post.send("ann", ["report.txt"])
        if then is not None:
            raise then
        return told

    return main


def test_the_same_bytes_meet_their_receipt_and_others_are_asked_about(tmp_path: Path) -> None:
    post = Post(scope=["to"])
    assert live(tmp_path, sending(post, "one", then=Crash())).status == "failed"
    again = live(tmp_path, sending(post, "one", then=Crash()), resume=True)
    assert (again.status, again.replayed, post.sent) == ("failed", 1, ["ann:one"])
    changed = live(tmp_path, sending(post, "two"), resume=True)
    assert (changed.status, changed.reason, post.sent) == ("waiting", "challenge", ["ann:one"])
    told = changed.waiting_for[0].summary
    assert 'to="ann") with report.txt (sha256 3fc4ccfe)' in told and "with report.txt (sha256 7692c3ad) at" in told
    with open_engine(tmp_path) as engine:
        engine.resolve(changed.waiting_for[0].tool_call_id, "another")
        assert engine.resume("r1", main=sending(post, "two")).result == "sent 2"
    assert post.sent == ["ann:one", "ann:two"]


def test_a_file_that_is_gone_is_no_reason_to_take_a_receipt_for_it(tmp_path: Path) -> None:
    post = Post(scope=["to"])
    live(tmp_path, sending(post, "one", then=Crash()))
    (tmp_path / "state/workspaces/r1/report.txt").unlink()
    asked = live(tmp_path, sending(post, None), resume=True)
    assert (asked.reason, post.sent) == ("challenge", ["ann:one"])
    with open_engine(tmp_path) as engine:
        engine.resolve(asked.waiting_for[0].tool_call_id, "same")
        assert engine.resume("r1", main=sending(post, None)).result == "sent 1"


def test_two_versions_of_a_file_are_two_mails_where_equal_ones_are_one(tmp_path: Path) -> None:
    post = Post(scope=["to"])

    def main(run: Any) -> list[str]:
        return [sending(post, text)(run) for text in ("one", "one", "two")]

    done = Job(tmp_path, "constraints: {no_duplicate_external_actions: true}").life(main)
    assert (done.result, post.sent) == (["sent 1", "sent 1", "sent 2"], ["ann:one", "ann:two"])


@pytest.mark.parametrize("changed", [False, True])
def test_a_lost_call_is_sent_again_with_the_bytes_of_the_first_time_or_a_person_is_asked(
    tmp_path: Path, changed: bool
) -> None:
    post = Post(scope=["to"], key_ttl="24h")
    post.lost_with = "two" if changed else "one"
    found = live(tmp_path, sending(post, "one"))
    if changed:
        assert (found.reason, post.sent) == ("in_doubt", ["ann:one"])
        assert "the file report.txt holds sha256 3fc4ccfe" in found.waiting_for[0].summary
        with open_engine(tmp_path, tools=[post.send]) as engine:
            (foreseen,) = engine.forecast("r1")["calls"]
        assert (foreseen["then"], foreseen["why"][:34]) == ("person_asked", "the file report.txt holds sha256 3")
    else:
        assert (found.status, post.sent, len(set(post.keys))) == ("succeeded", ["ann:one", "ann:one"], 1)


def test_a_consent_holds_for_the_bytes_that_it_was_given_for(tmp_path: Path) -> None:
    post = Post(scope=["to"], approval="always")

    asked = live(tmp_path, sending(post, "one"))
    assert asked.reason == "approval"
    with open_engine(tmp_path) as engine:
        ((_, item),) = engine.inbox()
        assert item.arguments["$files"]["report.txt"].startswith("7692c3ad")
        engine.approve(item.id)
    changed = live(tmp_path, sending(post, "two"), resume=True)
    assert (changed.reason, post.sent) == ("approval", [])  # asked anew, for the other bytes
    sent = live(tmp_path, sending(post, "one"), resume=True)
    assert (sent.status, post.sent) == ("succeeded", ["ann:one"])


def test_a_file_that_changes_between_the_consent_and_the_sending_is_not_sent(tmp_path: Path) -> None:
    post = Post(scope=["to"], approval="always")

    def main(run: Any) -> str:
        try:
            return str(sending(post, "one")(run))
        except CallFailed as problem:
            return str(problem)

    with open_engine(tmp_path) as engine:
        engine.approve(engine.run(main, run_id="r1").waiting_for[0].id)

        def swapped(run: Any) -> str:
            (run.workspace / "report.txt").write_text("one", "utf-8")
            request = run._call(post.send, ("ann", ["report.txt"]), {})
            (run.workspace / "report.txt").write_text("two", "utf-8")
            with pytest.raises(
                CallFailed, match=r"not sent: the file report\.txt holds sha256 .* with sha256 7692c3ad"
            ):
                run.door.serve_sync(request)
            return "refused"

        assert engine.resume("r1", main=swapped).result == "refused"
    assert post.sent == []


def test_a_mail_with_another_report_under_the_same_name_is_not_taken_for_the_one_that_went_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool as it is shipped, and a peer that takes mails: the first life's, and no other."""
    mails: list[bytes] = []

    def mailing(text: str, then: Exception | None = None) -> Callable[[Any], Any]:
        async def main(run: Any) -> Any:
            (run.workspace / "report.txt").write_text(text, "utf-8")
            async with smtp_peer({}) as script:
                monkeypatch.setenv("PERDURE_SMTP_HOST", "127.0.0.1")
                monkeypatch.setenv("PERDURE_SMTP_PORT", str(script.port))
                monkeypatch.setenv("PERDURE_SMTP_FROM", "reports@example.org")
                try:
                    return await send_mail("ann@example.org", "Report", "as told", ["report.txt"])
                finally:
                    mails.extend(script.mails)
                    if then is not None:
                        raise then

        return main

    assert live(tmp_path, mailing("one", Crash())).status == "failed"
    assert live(tmp_path, mailing("one", Crash()), resume=True).replayed == 1
    assert live(tmp_path, mailing("two"), resume=True).reason == "challenge"
    assert len(mails) == 1


@pytest.mark.parametrize(
    ("shipped", "args"),
    [(send_mail, ("ann@example.org", "Report", "text", ["report.txt"])), (upload, ("report.txt", "s3://b/report.txt"))],
    ids=["mail", "upload"],
)
def test_a_shipped_tool_is_another_call_where_its_file_holds_other_bytes(
    tmp_path: Path, shipped: Any, args: tuple[Any, ...]
) -> None:
    def main(run: Any) -> list[Any]:
        found = []
        for text in ("one", "two", "one"):
            (run.workspace / "report.txt").write_text(text, "utf-8")
            found.append(run._call(shipped, args, {}))
        return [request.key.args_hash for request in found]

    one, two, again = live(tmp_path, main).result
    assert one == again != two


def turn_loop(run: Any, *answers: list[dict[str, Any]]) -> list[str]:
    def model(messages: list[Any]) -> dict[str, Any]:
        said = sum(1 for message in messages if message.get("role") == "assistant")
        calls = answers[said] if said < len(answers) else []
        return {"content": "", "tool_calls": [{"id": f"c{said}{n}", **call} for n, call in enumerate(calls)]}

    messages: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        turn = run.turn("agent", model, messages)
        messages += turn.messages
        if not turn.calls:
            return [str(message["content"]) for message in messages if message.get("role") == "tool"]
        messages += turn.results()


@pytest.mark.parametrize("scope", [["to"], None])
def test_a_model_that_writes_and_sends_at_once_is_told_of_the_same_bytes_and_may_send_others(
    tmp_path: Path, scope: list[str] | None
) -> None:
    post = Post(scope=scope)
    send = post.send

    @tool(name="write", side_effect_class="local")
    def write(text: str, *, call: CallContext) -> str:
        (call.workspace / "report.txt").write_text(text, "utf-8")
        return text

    def main(run: Any) -> Any:
        assert write is not None and send is not None
        mail = {"name": "send", "args": {"to": "ann", "attachments": ["report.txt"]}}
        return turn_loop(
            run,
            [{"name": "write", "args": {"text": "one"}}, mail],
            [mail],
            [{"name": "write", "args": {"text": "two"}}],
            [mail],
        )

    _, sent, again, _, other = live(tmp_path, main).result
    assert sent == "sent 1"
    assert "This was done before" in again and "with report.txt (sha256 7692c3ad) was done at" in again
    assert ("This was done before" in other) is (scope is not None)
    assert post.sent == (["ann:one"] if scope else ["ann:one", "ann:two"])
    with open_engine(tmp_path) as engine:
        assert engine.verify("r1").ok
        assert (
            "7692c3ad" in engine.call("r1.3")["request"]
        )  # what was sent, though nothing was there when it was asked for


def test_a_model_that_rewrites_and_sends_at_once_is_told_to_ask_again(tmp_path: Path) -> None:
    post = Post(scope=["to"])
    send = post.send

    @tool(name="write", side_effect_class="local")
    def write(text: str, *, call: CallContext) -> str:
        (call.workspace / "report.txt").write_text(text, "utf-8")
        return text

    def main(run: Any) -> Any:
        (run.workspace / "report.txt").write_text("draft", "utf-8")
        mail = {"name": "send", "args": {"to": "ann", "attachments": ["report.txt"]}}
        assert write is not None and send is not None
        return turn_loop(run, [{"name": "write", "args": {"text": "one"}}, mail], [mail])

    _, refused, sent = live(tmp_path, main).result
    assert "not sent: the file report.txt holds sha256" in refused
    assert (sent, post.sent) == ("sent 1", ["ann:one"])


def test_an_edited_call_is_bound_to_the_files_that_it_names_then(tmp_path: Path) -> None:
    (tmp_path / "edits.py").write_text(
        "from perdure import CallContext, tool\n"
        "@tool(side_effect_class='external', files=['paths'], approval='always')\n"
        "def send(paths: list[str], *, call: CallContext) -> str:\n"
        "    return (call.workspace / paths[0]).read_text()\n"
        "def main(run):\n"
        "    (run.workspace / 'a').write_text('A')\n    (run.workspace / 'b').write_text('B')\n"
        "    return send(['a'])\n",
        "utf-8",
    )
    job = tmp_path / "j.job.yaml"
    job.write_text("name: j\nagent: {python: 'edits.py:main'}\n", "utf-8")
    with open_engine(tmp_path) as engine:
        item = engine.run(job, run_id="r1").waiting_for[0]
        engine.approve(item.id, edit={"paths": ["b"]})
        assert list(json.loads(engine.call("r1.1")["request"])["$files"]) == ["b"]
        assert engine.resume("r1").result == "B"


def test_what_a_path_leads_to_is_read_where_it_is_a_file(tmp_path: Path) -> None:
    @tool(side_effect_class="local", files=["paths"])
    def take(paths: Any) -> None:
        raise ToolFailed("never called")

    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")  # nobody writes into it: it must not be waited for
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    absolute = str(tmp_path / "a")
    wanted = {"a": empty, absolute: empty, "sub": None, "pipe": None, "none": None, "nul\0": None}
    assert digests(take, {"paths": list(wanted)}, tmp_path) == wanted
    assert digests(take, {"paths": "a"}, tmp_path) == {"a": empty}
    assert digests(take, {"paths": None}, tmp_path) == digests(take, {}, tmp_path) == {}
    assert digests(take, {"paths": "a"}, tmp_path, volatile=["paths"]) == {}


def test_a_call_without_files_has_the_identity_that_it_always_had() -> None:
    assert args_hash({"to": "ann"}) == args_hash({"to": "ann"}, files={})
    assert args_hash({"to": "ann"}) == "7a6e05fadf9dfdb1312a800316577ca9c0a3658a56192a6d75fd10e90c75857f"
    hashes = {args_hash({"p": "a"}, files={"a": digest}) for digest in ("1", "2", None)}
    assert len(hashes) == 3


def test_the_shipped_tools_name_their_files_and_a_name_that_is_no_argument_is_refused() -> None:
    assert (send_mail.declaration.files, upload.declaration.files) == (("attachments",), ("path",))
    with pytest.raises(UsageError, match="files names 'paths'; its arguments are: path"):

        @tool(files=["paths"])
        def take(path: str) -> str:
            return path
