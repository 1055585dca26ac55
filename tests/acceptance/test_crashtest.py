"""``perdure crashtest`` on jobs of a user who makes the usual mistakes, and on one who makes none."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli_support import Desk, Said, ended
from tests.acceptance.crashtest_jobs import JOB, LATE, ONLY_MAIL
from tests.acceptance.outside_knowledge import planted

MOST_SECONDS = 150
MOST_TRIES = 3


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with the user's files."""
    desk = Desk(tmp_path)
    desk.write("report.py", JOB)
    desk.write("report_later.py", LATE)
    desk.write("only_mail.py", ONLY_MAIL)
    return desk


Test = Callable[..., Said]


@pytest.fixture
def test(desk: Desk) -> Iterator[Test]:
    """Run a crash test to its end and return what it left behind; the files it keeps are removed afterwards."""
    kept: list[str] = []

    def run(job: str, *flags: str, env: dict[str, str] | None = None, output: str = "json") -> Said:
        place = job if job.endswith(".yaml") else f"report.py:{job}" if ":" not in job else job
        said = ended(desk.start("crashtest", place, "--jobs", "2", "-o", output, *flags, env=env or {}), MOST_SECONDS)
        kept.extend(re.findall(r"^files: (.*)$", said.err, re.MULTILINE))
        return said

    yield run
    for folder in kept:
        shutil.rmtree(folder)


def really(desk: Desk) -> Counter[str]:
    """What was done for real, as the tools themselves have noted."""
    log = desk.folder / "really.log"
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


def until_killed(run: Callable[[], Said], *places: str) -> Said:
    """Run again, a few times at most, where timing has let the numbers jump over one of these places."""
    for _ in range(MOST_TRIES):
        said = run()
        if all(at(said, place) for place in places):
            return said
    raise AssertionError(f"never killed at one of {places}: {said}")


def verdicts(said: Said) -> Counter[str]:
    """How many crash points had which verdict."""
    return Counter(point["verdict"] for point in said.document["points"])


def at(said: Said, where: str) -> list[dict[str, Any]]:
    """The crash points of this kind."""
    return [point for point in said.document["points"] if point["where"].startswith(where)]


class Outside(html.parser.HTMLParser):
    """Collects what a page would load, and its table rows."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.rows += tag == "tr" and any(name == "id" for name, _ in attrs)
        wanted = [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self.loads += [value for value in wanted if not value.startswith("#")]
        self.loads += [tag] if tag in ("script", "link", "iframe", "object") else []


def test_a_good_job_goes_on_or_asks_at_every_point_and_nothing_is_sent(desk: Desk, test: Test) -> None:
    worst = ("after tool charge", "after tool notify", "after tool mail")
    said = until_killed(lambda: test("good", "-i", "url=x"), *worst)
    assert said.code == 0, said
    document = said.document
    assert (document["schema"], document["ok"], document["live"]) == ("perdure.crashtest/v1", True, False)
    assert {item["effect"]: item["times"] for item in document["expected"]} == {
        'charge(invoice="a")': 2, 'mail(to="boss@example.org")': 1, 'notify(channel="<team>")': 1}  # fmt: skip
    assert [point["point"] for point in document["points"]][:40] == list(range(1, 41))
    assert set(verdicts(said)) == {"finished", "waits"}
    assert at(said, "after tool charge")[0]["verdict"] == "finished"
    assert at(said, "after tool notify")[0]["verdict"] == "finished", "its stand-in can be searched"
    asked = at(said, "after tool mail")[0]
    assert asked["verdict"] == "waits"
    assert asked["questions"][0]["kind"] == "in_doubt" and asked["questions"][0]["answer"] == "happened"
    assert all(point["lives"] >= 3 for point in document["points"]), "killed, resumed, and resumed once more"
    assert set(really(desk)) == {"fetch"}, "only the read was made"
    assert not (desk.folder / ".perdure").exists()


def test_the_worst_moment_of_each_tool_alone_takes_a_kill_for_each(desk: Desk, test: Test) -> None:
    said = test("good", "-i", "url=x", "--worst", "--html", "out.html")
    assert said.code == 0, said
    assert {(point["where"], point["verdict"]) for point in said.document["points"]} == {
        ("after tool charge call crashtest.3", "finished"),
        ("after tool notify call crashtest.5", "finished"),
        ("after tool mail call crashtest.6", "waits"),
    }
    assert any("Only the worst moment" in limit for limit in said.document["limits"])
    assert "after tool mail" in (desk.folder / "out.html").read_text("utf-8")
    assert set(really(desk)) == {"fetch"}
    assert test("keyless", "--worst").code == 1


def test_its_page_needs_nothing_else_and_escapes_what_it_shows(desk: Desk, test: Test) -> None:
    said = test("good", "-i", "url=<script>x</script>", "--points", "30-33", "--html", "out.html")
    text = (desk.folder / "out.html").read_text("utf-8")
    page = Outside()
    page.feed(text)
    assert page.loads == []
    assert page.rows == len(said.document["points"]) == 4
    assert "&lt;team&gt;" in text and "<team>" not in text
    assert "&lt;script&gt;" in text and "<script>" not in text
    for tool in said.document["tools"]:
        assert tool["tool"] in text and tool["guarantee"] in text
    assert text.count("$") == 0


def test_each_tool_is_told_what_would_make_it_promise_more(test: Test) -> None:
    said = test("good", "-i", "url=x", "--points", "1")
    tools = {tool["tool"]: tool for tool in said.document["tools"]}
    assert {name: tool["guarantee"] for name, tool in tools.items()} == {
        "charge": "keyed 24h", "charge_without_key": "keyed 24h", "mail": "ask", "notify": "probe", "told": "probe",
        "wire": "ask", "fetch": "rerun"}  # fmt: skip
    assert "@probe" in tools["mail"]["advice"] and "key_ttl" in tools["mail"]["advice"]
    assert "takes no `call`" in tools["charge_without_key"]["advice"]
    assert tools["notify"]["advice"] == tools["fetch"]["advice"] == ""
    assert tools["told"]["returns"] == "not called by a clean run"


def test_a_key_that_nobody_sends_repeats_the_effect(desk: Desk, test: Test) -> None:
    said = until_killed(lambda: test("keyless", "--points", "12-26"), "after tool charge_without_key")
    assert said.code == 1, said
    point = at(said, "after tool charge_without_key")[0]
    assert (point["verdict"], point["repeated"]) == ("repeated", ['charge_without_key(invoice="a")'])
    assert "happened 2 times, not 1" in point["why"][0]
    assert Path(point["state_dir"]).is_dir(), "its ledger is kept, to look at"
    assert not really(desk)


def test_a_program_with_a_memory_of_its_own_loses_an_effect(test: Test) -> None:
    said = test("forgetful", "--points", "11-26")
    assert said.code == 1, said
    assert "lost" in verdicts(said)
    assert {name for point in said.document["points"] for name in point["lost"]} == {'charge(invoice="a")'}


def test_a_program_that_cannot_go_on_is_stuck(test: Test) -> None:
    said = until_killed(lambda: test("weak", "--points", "12-26"), "after tool charge")
    assert said.code == 1, said
    point = at(said, "after tool charge")[0]
    assert (point["verdict"], point["repeated"]) == ("stuck", [])
    assert "the run failed: RuntimeError out of paper" in point["why"][0]


def test_a_life_that_does_not_end_is_stuck(test: Test) -> None:
    said = test("slow", "--points", "16", "--life-seconds", "3")
    assert said.code == 1, said
    assert said.document["points"][0]["why"] == ["a resumed life did not end in time"]


def test_arguments_that_change_in_every_life_are_told_to_go_into_a_memo(test: Test) -> None:
    said = until_killed(lambda: test("reworded", "--points", "16-26"), "after tool mail")
    assert at(said, "after tool mail")[0]["questions"][0]["kind"] == "in_doubt"
    assert any("use run.memo" in question["summary"] for point in said.document["points"]
               for question in point["questions"])  # fmt: skip


def test_an_async_job_with_approvals_is_killed_before_and_after_them(desk: Desk, test: Test) -> None:
    said = until_killed(lambda: test("careful"), "after tool wire", "after tool memo:think")
    assert said.code == 0, said
    assert said.document["approvals"] == ["wire"]
    assert set(verdicts(said)) == {"finished", "waits"}
    assert at(said, "after tool wire")[0]["verdict"] == "waits"
    assert at(said, "after tool memo:think")[0]["questions"] == [], "the approval is asked for anyway"
    assert set(really(desk)) == {"think"}


def test_with_live_the_real_tools_are_entered_and_a_blind_probe_is_caught(desk: Desk, test: Test) -> None:
    def run() -> Said:
        (desk.folder / "really.log").unlink(missing_ok=True)
        return test("probed", "--live", "--points", "17-24")

    said = until_killed(run, "before tool told", "after tool told")
    assert said.code == 1, said
    assert at(said, "after tool told")[0]["verdict"] == "repeated"
    assert at(said, "before tool told")[0]["verdict"] == "finished"
    clean_runs, points = 2, 8
    assert len(said.document["points"]) == points
    assert really(desk)["told"] == clean_runs + points + verdicts(said)["repeated"]


def test_live_must_be_told_how_often(desk: Desk) -> None:
    desk.type("crashtest", "report.py:probed", "--live").is_error(2, "PERDURE-140")
    desk.type("crashtest", "report.py:probed", "--live", "--max-points", "3", "--returns", "told=1").is_error(
        2, "PERDURE-140"
    )
    assert not really(desk)


def test_without_a_value_for_a_stand_in_nothing_is_run(desk: Desk) -> None:
    said = desk.type("crashtest", "only_mail.py:main")
    said.is_error(2, "PERDURE-133")
    for way in ("@send.simulate", "--returns send=JSON", "--from-run RUN", "--live"):
        assert way in said.err
    assert not really(desk)


def test_a_tool_that_only_running_the_job_shows_is_not_entered_either(desk: Desk, test: Test) -> None:
    said = test("late", "--points", "1")
    said.is_error(2, "PERDURE-133")
    assert "late_tool" in said.err
    assert not really(desk)
    assert test("late", "--points", "1", "--returns", 'late_tool="x"').code == 0
    assert not really(desk)


def test_stand_ins_return_what_a_real_run_got_and_reads_and_memos_too(desk: Desk, test: Test) -> None:
    assert desk.type("run", "only_mail.py:main", "--run-id", "real").code == 0
    assert really(desk) == {"look": 1, "send": 1}
    said = test("only_mail.py:main", "--from-run", "real", "--stub-reads", "--points", "15-40")
    assert said.code == 0, said
    assert really(desk) == {"look": 1, "send": 1}
    assert {tool["tool"]: tool["returns"] for tool in said.document["tools"]}["send"] == "--from-run"
    refused = desk.type("crashtest", "report.py:good", "--from-run", "real")
    refused.is_error(2, "PERDURE-140")


def test_a_job_that_never_worked_is_not_judged(test: Test) -> None:
    said = test("broken")
    said.is_error(1, "PERDURE-605")
    assert "never worked" in said.err


def test_a_stand_in_that_the_job_cannot_use_is_not_taken_for_a_fault_of_the_job(desk: Desk, test: Test) -> None:
    assert desk.type("run", "only_mail.py:main", "--run-id", "real").code == 0
    said = test("only_mail.py:main", "--points", "1", "--returns", "*=5")
    said.is_error(1, "PERDURE-605")
    assert "send (--returns)" in said.err
    assert "  next: perdure crashtest JOB --returns send=JSON " in said.err
    assert "perdure run" not in said.err, "it would really send"
    assert really(desk)["send"] == 1


def test_a_broken_engine_is_caught_by_the_users_own_job(test: Test, tmp_path: Path) -> None:
    said = test("good", "-i", "url=x", "--points", "45-70",
                env=planted(tmp_path / "site", "doubts_are_sent_again"))  # fmt: skip
    assert said.code == 1, said
    assert "repeated" in verdicts(said)


def test_a_job_file_with_its_policies_is_tried_as_it_stands(desk: Desk, test: Test) -> None:
    desk.write(
        "report.policy.yaml", "version: 1\nrules: [{tool: mail, replay_policy: REPLAY_IDEMPOTENT, key_ttl: 1h}]\n"
    )
    desk.write("report.job.yaml", "name: weekly\nagent: {python: 'report:good'}\npolicies: [report.policy.yaml]\n"
               "inputs: {url: x}\n")  # fmt: skip
    said = test("report.job.yaml", "--max-points", "2")
    assert said.code == 0, said
    assert {tool["tool"]: tool["guarantee"] for tool in said.document["tools"]}["mail"] == "keyed 1h"
    assert [point["point"] for point in said.document["points"]] == [1, 2]
    assert len(said.document["untried"]) > 40


def test_people_read_tables_with_the_points_of_each_reason(test: Test) -> None:
    said = test("keyless", "--points", "12-26", output="table")
    assert said.code == 1, said
    assert "TOOL" in said.out and "GUARANTEE" in said.out and "repeated an effect" in said.out
    assert re.search(
        r"^  \d+(-\d+)?: charge_without_key\(invoice=\"a\"\) happened 2 times, not 1$", said.out, re.MULTILINE
    )
    assert re.match(r"\d+ crash points: \d+ went on and finished, \d+ repeated an effect", said.out.splitlines()[-1])


def test_flags_that_make_no_sense_are_refused(desk: Desk) -> None:
    for flags in (["--points", "3-1"], ["--points", "x"], ["--returns", "mail"], ["--returns", "mail={"],
                  ["--html", "none/out.html"], ["--folder", "."], ["--jobs", "0"], ["--worst", "--points", "1"]):  # fmt: skip
        desk.type("crashtest", "report.py:good", *flags).is_error(2, "PERDURE-140")
    desk.type("crashtest", "none.py:main").is_error(2, "PERDURE-131")
    assert not really(desk)
    assert json.loads(desk.type("crashtest", "none.py:main", "-o", "json").out)["code"] == "PERDURE-131"
