"""What a job forbids is refused before anything is sent; what it demands is looked for before it ends (R035, R041, R043)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import CallDenied, SpecError, UsageError, VerdictRefused, tool
from perdure.config.job_file import load_job
from tests.integration.engine_support import Outside, mailer, open_engine
from tests.integration.job_support import Job


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.mark.parametrize("entry", ["send", "se*", "local:send", "loc*:*nd", "SEND"])
def test_a_forbidden_call_is_refused_before_it_is_sent(tmp_path: Path, outside: Outside, entry: str) -> None:
    job = Job(tmp_path, f"constraints: {{forbidden_actions: ['{entry}']}}")
    send = mailer(outside)

    def main(run: Any) -> str:
        run.memo("send", str, 1)  # a memo is no action
        with pytest.raises(CallDenied, match="the job forbids send"):
            send("boss")
        raise RuntimeError("stopped")

    for _ in range(2):
        found = job.life(main)
        assert (found.status, found.calls, outside.sent) == ("failed", {"failed": 1}, [])
    with job.engine() as engine:
        assert engine.calls("r1")[0]["error_code"] == "denied"


def test_another_namespace_or_name_is_not_forbidden(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "constraints: {forbidden_actions: ['mcp:send', 'sen', 'delete_*']}")
    send = mailer(outside)
    assert job.life(lambda run: send("boss")).status == "succeeded"


def test_arguments_that_lead_elsewhere_are_refused_with_exit_code_9(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "constraints: {allowed_domains: [good.example]}")
    send = mailer(outside)
    assert job.life(lambda run: send("boss@good.example", "see http://good.example/x")).status == "succeeded"
    job = Job(tmp_path / "b", "constraints: {allowed_domains: [good.example]}")
    found = job.life(lambda run: send("boss@good.example", "see http://good.example@evil.example/x"))
    assert (found.status, found.error_code, found.exit_code) == ("failed", "denied", 9)
    assert "it leads to evil.example, and the job allows only good.example" in str(found.error_detail)
    assert len(outside.sent) == 1


def test_a_person_who_edits_a_request_cannot_lead_it_elsewhere_either(tmp_path: Path) -> None:
    (tmp_path / "led_elsewhere.py").write_text(
        "from perdure import tool\n"
        "@tool(side_effect_class='external', approval='always')\n"
        "def send(to: str, body: str = '') -> str:\n    return to\n"
        "def main(run):\n    return send('boss@good.example')\n",
        "utf-8",
    )
    job = tmp_path / "j.job.yaml"
    rules = "constraints: {allowed_domains: [good.example]}"
    job.write_text(f"name: j\nagent: {{python: 'led_elsewhere.py:main'}}\n{rules}\n", "utf-8")
    with open_engine(tmp_path) as engine:
        assert engine.run(job, run_id="r1").reason == "approval"
        ((_, item),) = engine.inbox()
        for edit in ({"to": "boss@evil.example"}, {"body": "see http://evil.example/x"}):
            with pytest.raises(
                VerdictRefused, match=r"it leads to evil\.example, and the job allows only good\.example"
            ):
                engine.approve(item.id, edit=edit)
        assert engine.call("r1.1")["status"] == "awaiting_approval"
        engine.approve(item.id, edit={"to": "ann@good.example"})
        assert engine.resume("r1").result == "ann@good.example"


def test_the_stored_request_is_looked_at_where_it_is_what_would_be_sent(tmp_path: Path, outside: Outside) -> None:
    """A row that another version has prepared without the rule is refused when it is to start."""
    job = Job(tmp_path, "constraints: {allowed_domains: [good.example]}")

    @tool(name="send", side_effect_class="external", approval="always")
    def send(to: str) -> str:
        outside.sent.append(to)
        return to

    def asks(run: Any) -> str:
        rules = run.door.life.spec["constraints"]
        allowed, rules["allowed_domains"] = rules["allowed_domains"], []
        try:
            return str(send("boss@evil.example"))
        finally:
            rules["allowed_domains"] = allowed

    question = job.life(asks).waiting_for[0]
    with job.engine() as engine:
        engine.approve(question.id)
    found = job.life(lambda run: send("boss@evil.example"))
    assert (found.exit_code, outside.sent) == (9, [])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("constraints: {allowed_domains: ['http://x.example']}", "is no host: write example.org"),
        (
            "constraints: {must_cite_sources: true}",
            "constraints.must_cite_sources: sources are looked for in the texts",
        ),
        (
            "constraints: {must_cite_sources: true}\nartifacts: {expected_outputs: [report.pdf, transcript.md]}",
            "and there is none",
        ),
    ],
)
def test_what_cannot_be_checked_is_refused_at_the_start(tmp_path: Path, said: str, text: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_job(Job(tmp_path, said).job)
    assert text in str(refused.value)


def test_a_report_must_cite_what_was_read(tmp_path: Path) -> None:
    said = "constraints: {must_cite_sources: true}\nartifacts: {expected_outputs: [report.md, data.csv]}"
    job = Job(tmp_path, said)

    @tool(name="fetch", side_effect_class="read_only")
    def fetch(url: str) -> dict[str, str]:
        return {"final_url": "http://moved.example/b", "html": "<a href='http://linked.example/c'>"}

    def writing(text: str) -> Any:
        def main(run: Any) -> None:
            fetch("http://read.example/a?x=1&y=2")
            (run.workspace / "report.md").write_text(text, "utf-8")
            (run.workspace / "data.csv").write_text("1", "utf-8")

        return main

    for text in ("no source", "see http://other.example/", "see http://linked.example/c"):
        found = job.life(writing(text))
        assert (found.status, found.error_code) == ("failed", "ConditionsUnmet")
        assert "report.md cites no URL that a reading tool of this run has fetched" in str(found.error_detail)
    assert job.life(writing("[1]: http://read.example/a?x=1&amp;y=2#top")).status == "succeeded"


def test_a_source_counts_where_the_reader_was_led(tmp_path: Path) -> None:
    said = "constraints: {must_cite_sources: true}\nartifacts: {expected_outputs: [report.md]}"

    @tool(name="fetch", side_effect_class="read_only")
    def fetch(url: str) -> dict[str, Any]:
        return {"pages": [{"final_url": "http://MOVED.example/b/"}]}

    def main(run: Any) -> None:
        fetch("http://read.example/a")
        (run.workspace / "report.md").write_text("(http://moved.example/b).", "utf-8")

    assert Job(tmp_path, said).life(main).status == "succeeded"


@pytest.mark.parametrize(
    ("wanted", "folder"), [("out/session_<id>/", "out/session_r1"), ("out", "out/r1"), ("/abs/<id>", "/abs/r1")]
)
def test_the_workspace_is_where_the_job_says(tmp_path: Path, wanted: str, folder: str) -> None:
    wanted = wanted.replace("/abs", str(tmp_path / "elsewhere"))
    folder = folder.replace("/abs", str(tmp_path / "elsewhere"))
    job = Job(tmp_path, f"artifacts: {{workspace_dir: '{wanted}', expected_outputs: [a.txt]}}")
    found = job.life(lambda run: (run.workspace / "a.txt").write_text("a", "utf-8"))
    assert (found.status, found.workspace) == ("succeeded", str(tmp_path / folder))
    assert (tmp_path / folder / "a.txt").read_text("utf-8") == "a"


def test_a_stop_condition_is_one_of_the_job_s_own_and_its_evidence_is_kept(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "stop_conditions: [report_pdf_created, {effect: send, times: 1}]")
    send = mailer(outside)

    def main(run: Any) -> None:
        with pytest.raises(UsageError, match="did you mean 'report_pdf_created'"):
            run.satisfy("report_pdf_create")
        send("boss")
        run.satisfy("report_pdf_created", evidence="r1.1")

    found = job.life(main)
    assert found.status == "succeeded"
    with job.engine() as engine:
        [met] = engine._ledger.read(lambda store: store.budgets.met("r1"))
        assert (met.condition, met.evidence) == ("report_pdf_created", '"r1.1"')


def test_a_condition_nobody_satisfied_is_no_success_and_one_of_an_earlier_life_stands(tmp_path: Path) -> None:
    job = Job(tmp_path, "stop_conditions: [first, second]")

    def satisfying(*names: str) -> Any:
        def main(run: Any) -> None:
            for name in names:
                run.satisfy(name, evidence={"seen": name})

        return main

    found = job.life(satisfying("first"))
    assert (found.status, found.error_detail) == ("failed", "the stop condition 'second' was not satisfied")
    assert job.life(satisfying("second")).status == "succeeded"


def test_a_call_that_failed_is_no_evidence(tmp_path: Path) -> None:
    job = Job(tmp_path, "stop_conditions: [sent]")

    @tool(name="fails", side_effect_class="local")
    def fails() -> None:
        raise ValueError("no")

    def main(run: Any) -> None:
        with pytest.raises(Exception, match="no"):
            fails()
        with pytest.raises(UsageError, match=r"r1\.1 is failed, and no evidence"):
            run.satisfy("sent", evidence="r1.1")

    assert job.life(main).status == "failed"


@pytest.mark.parametrize(
    "condition", ["artifacts: {expected_outputs: [a.txt]}", "stop_conditions: [{artifact: a.txt}]"]
)
def test_an_expected_output_that_is_missing_is_no_success(tmp_path: Path, condition: str) -> None:
    job = Job(tmp_path, condition)
    found = job.life(lambda run: "done, I promise")
    assert (found.status, found.error_code) == ("failed", "ConditionsUnmet")
    assert "a.txt is not in the workspace: make the program write it, then resume" in str(found.error_detail)
    assert job.life(lambda run: (run.workspace / "a.txt").write_text("a", "utf-8")).status == "succeeded"


def test_an_effect_that_happened_too_often_or_never_is_no_success(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "stop_conditions: [{effect: send, times: 1}]")
    assert job.life(lambda run: "I have sent it").error_detail == "send has 0 receipts, not 1"
    send = mailer(outside)
    assert job.life(lambda run: send("boss")).status == "succeeded"
