"""The users' testing kit as its users have it: their test files, run by pytest in a process of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from perdure.testing.provider.faults import Fault
from perdure.testing.provider.world import Settings

pytest_plugins = ("pytester",)

MAIN = """
from perdure import tool
from perdure.testing.tools import create_effect, keyed_effect, plain_effect, read_value, searchable_effect


def main(run):
    create_effect("report.pdf", "text")
    keyed_effect("invoice 7")
    return searchable_effect("mail to ann")["what"]


def mailing(run):
    return searchable_effect("mail to ann")["what"]


async def async_main(run):
    with run.step("pay", phase="money"):
        await run.call(keyed_effect, "invoice 7")
    await run.call(create_effect, "report.pdf")
    return "paid"


def careless(run):
    plain_effect.plain("mail to bob")  # past the guard: nothing records it
    return read_value("weather")


def asking(run):
    return plain_effect("mail to ann")["what"]
"""

BIN = Path(sys.executable).parent
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run_tests(pytester: pytest.Pytester) -> Run:
    """Runs a user's test file that begins with the mains above, and demands so many passes and failures."""

    def run(source: str, *flags: str, passed: int = 1, failed: int = 0) -> pytest.RunResult:
        pytester.makepyfile(test_job=MAIN + source)
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", *flags)
        result.assert_outcomes(passed=passed, failed=failed)
        return result

    return run


def test_a_good_job_passes_wherever_it_is_killed(run_tests: Run) -> None:
    run_tests(
        """
def test_every_effect_once(crash_at, perdure_provider, assert_effects):
    places = []
    for passage in crash_at.every_point(mailing, first=12):  # once the run is there, and claimed
        assert (passage.status, passage.result, passage.exit_code) == ("succeeded", "mail to ann", 0), passage
        assert_effects(perdure_provider, {"mail to ann": 1})
        places.append(passage.crashed_at)
    assert len(places) > 15
    for moment in ("before", "after"):
        assert sum(place.startswith(f"{moment} tool searchable_effect") for place in places) == 1
"""
    )


def test_places_have_names(run_tests: Run) -> None:
    run_tests(
        """
import pytest
ONCE = {"invoice 7": 1, "report.pdf": 1}

@pytest.mark.parametrize("place", [
    {"tool": "keyed_effect"}, {"tool_call_id": "job.2"}, {"step": "pay"}, {"phase": "money"}, {"point": 3},
    {"tool": "keyed_effect", "phase": "money"},
], ids=str)
def test_it(place, crash_at, perdure_provider, assert_effects):
    passage = crash_at(async_main, **place)
    assert (passage.status, len(passage.lives)) == ("succeeded", 2)
    assert_effects(perdure_provider, ONCE)
    assert_effects(perdure_provider.counts("keyed"), ["invoice 7"])
    assert_effects(perdure_provider, ["report.pdf"], kind="create")
    assert [call["guarantee"] for call in passage.calls] == ["keyed 24h", "create-if-absent"]
""",
        passed=6,
    )


def test_a_tool_past_the_guard_is_found_out(run_tests: Run) -> None:
    result = run_tests(
        """
def test_one_mail(crash_at, perdure_provider, assert_effects):
    passage = crash_at(careless, tool="read_value")
    assert passage.status == "succeeded"
    assert_effects(perdure_provider, {"mail to bob": 1})
""",
        passed=0,
        failed=1,
    )
    result.stdout.fnmatch_lines(
        [
            "E   *WrongEffects: the effects are not exactly those that were asked for:",
            "E   *REPEATED    mail to bob  asked for 1, seen 2",
            "E   *p1 by POST /plain at *, body {*mail to bob*}",
            "E   *p2 by POST /plain at *",
            "E   *perdure calls ls --state-dir *",
            "E   *sqlite3 -readonly */runtime_state.db *SELECT tool_call_id, tool_name, *FROM v_effects*",
            "E   */provider.jsonl   # all that the provider saw",
        ]
    )


def test_the_commands_of_a_failure_can_be_pasted(run_tests: Run, pytester: pytest.Pytester) -> None:
    result = run_tests(
        """
def test_lost(crash_at, perdure_provider, assert_effects):
    crash_at(main, tool="keyed_effect")
    assert_effects(perdure_provider, {"invoice 7": 1, "invoice 8": 1, "report.pdf": 1})
""",
        passed=0,
        failed=1,
    )
    told = result.stdout.str()
    assert re.search(r"LOST +invoice 8 +asked for 1, seen 0", told)
    assert re.search(r"UNINVITED +mail to ann +asked for 0, seen 1", told)
    assert "(2 other effects are right)" in told
    # On a CI machine pytest prints the whole message a second time, in its summary.
    commands = dict.fromkeys(re.findall(r"(perdure calls (?:ls|explain) .*?)(?:   #.*)?$", told, re.MULTILINE))
    assert len(commands) == 2
    for command in commands:
        shown = pytester.run("sh", "-c", f"PATH={BIN}:$PATH; {command}")
        assert shown.ret == 0
        assert "create_effect" in shown.stdout.str()


def test_a_call_that_only_a_person_can_settle_waits_and_goes_on_after_the_answer(run_tests: Run) -> None:
    run_tests(
        """
import perdure

def test_asked(crash_at, perdure_provider, assert_effects):
    waiting = crash_at(asking, tool="plain_effect")
    assert (waiting.status, waiting.reason, waiting.exit_code) == ("waiting", "in_doubt", 7)
    question = waiting.waiting_for[0]
    assert (question["kind"], question["tool_name"]) == ("in_doubt", "plain_effect")
    assert_effects(perdure_provider, {"mail to ann": 1})
    with perdure.open(state_dir=waiting.state_dir) as engine:
        engine.resolve(question["tool_call_id"], "happened", result={"what": "told by a person"})
    ended = crash_at.resume(waiting)
    assert (ended.status, ended.result, len(ended.lives)) == ("succeeded", "told by a person", 3)
    assert_effects(perdure_provider, {"mail to ann": 1})
"""
    )


def test_a_lost_reply_is_told_from_a_lost_request_at_every_point(run_tests: Run) -> None:
    run_tests(
        """
import perdure

def answered(passage, seen):
    with perdure.open(state_dir=passage.state_dir) as engine:
        call = passage.waiting_for[0]["tool_call_id"]
        if seen:
            engine.resolve(call, "happened", result={"what": "it"})
        else:
            engine.resolve(call, "did_not_happen")


def test_at_every_point_even_if_the_reply_is_lost(crash_at, perdure_provider, assert_effects):
    lose_the_reply = lambda: perdure_provider.control("plain", drop_reply_after_effect=True)
    waited = []
    for passage in crash_at.every_point(asking, before=lose_the_reply, first=10):
        while passage.status == "waiting":
            waited.append(perdure_provider.counts())
            answered(passage, waited[-1])
            passage = crash_at.resume(passage)
        assert passage.status == "succeeded", passage
        assert_effects(perdure_provider, ["mail to ann"])
    assert {} in waited and {"mail to ann": 1} in waited
"""
    )


def test_a_key_that_expired_between_two_lives_is_not_used_again(run_tests: Run) -> None:
    run_tests(
        """
import pytest

def only_keyed(run):
    return keyed_effect("invoice 7")["id"]

@pytest.mark.parametrize(("hours", "status"), [(23, "succeeded"), (25, "waiting")])
def test_key(hours, status, crash_at, perdure_clock, perdure_provider, assert_effects):
    killed = crash_at(only_keyed, tool="keyed_effect", resume=False)
    assert (killed.status, len(killed.lives)) == (None, 1)
    perdure_clock.advance(hours=hours)
    passage = crash_at.resume(killed)
    assert passage.status == status
    assert passage.calls[0]["prepared_at"] == "2026-01-01T12:00:00.000000Z"
    assert_effects(perdure_provider, {"invoice 7": 1})

def test_the_clock_goes_on_with_the_lives(crash_at, perdure_clock, perdure_provider):
    perdure_provider.control("keyed", reject_before_effect=503, next=3)
    began = perdure_clock.now()
    passage = crash_at(main, tool="create_effect", tuning={"first_retry_seconds": 30})
    assert passage.status == "succeeded"
    assert perdure_clock.now() > began and perdure_clock.monotonic() > 30
""",
        passed=3,
    )


WRONG_KNOBS = {
    "crash_at(main)": "UsageError: where is it to crash? Name a place with tool=",
    "crash_at(main, tool='two words')": "UsageError: tool='two words' is not a tool name",
    "crash_at(main, point=0)": "UsageError: point='0' is not a number from 1",
    "crash_at(main, tol='keyed_effect')": "TypeError: *unexpected keyword argument 'tol'",
    "crash_at(lambda run: 1, point=1)": "UsageError: *define it with `def`*at the top of the file",
    "crash_at(main, {'at': object()}, point=1)": "UsageError: inputs travel to another process as JSON",
    "crash_at(main, {1: 2}, point=1)": "UsageError: inputs travel to another process as JSON",
    "crash_at('no.job.yaml', point=1)": "LifeBroke: a life of run job ended with exit code 2: */no.job.yaml: no such file",
    "crash_at(main, tool='keyed_efect')": "DidNotCrash: the run never came to the place tool='keyed_efect': it is "
    "succeeded; tools that were called: create_effect, keyed_effect, searchable_effect",
    "crash_at(async_main, step='main')": "DidNotCrash: the run never came to the place step='main'",
    "list(crash_at.every_point(main, first=500))": "DidNotCrash: the run has no point 500",
}


def test_a_wrong_knob_is_an_error(run_tests: Run) -> None:
    tests = (f"def test_{number}(crash_at, perdure_provider):\n    {call}\n" for number, call in enumerate(WRONG_KNOBS))
    result = run_tests("\n\n".join(tests), passed=0, failed=len(WRONG_KNOBS))
    result.stdout.fnmatch_lines([f"E   *{complaint}*" for complaint in WRONG_KNOBS.values()])


def test_a_test_in_a_package_with_relative_imports_and_settings_of_its_own(pytester: pytest.Pytester) -> None:
    folder = pytester.mkpydir("checks")
    (folder / "helpers.py").write_text("from perdure.testing.tools import keyed_effect as pay\n", "utf-8")
    (folder / "test_relative.py").write_text(
        """
import os
from pathlib import Path
from .helpers import pay

def main(run):
    pay(os.environ["INVOICE"])
    return [os.environ["INVOICE"], Path.cwd().name]

def test_it(crash_at, perdure_provider, assert_effects, monkeypatch, tmp_path):
    monkeypatch.setenv("INVOICE", "8")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    passage = crash_at(main, tool="keyed_effect")
    assert passage.result == ["8", "here"]
    assert crash_at(main, tool="keyed_effect", environ={"INVOICE": "9"}).result[0] == "9"
    assert_effects(perdure_provider, ["8", "9"])
""",
        "utf-8",
    )
    for mode in ("prepend", "importlib"):
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--import-mode={mode}")
        result.assert_outcomes(passed=1)


def test_a_job_file_and_a_script_are_killed_too(run_tests: Run, pytester: pytest.Pytester) -> None:
    job = "name: pay\nagent: {python: 'pay:main'}\ninputs: {invoice: '7'}\n"
    (pytester.path / "pay.job.yaml").write_text(job, "utf-8")
    pytester.makepyfile(
        pay="""
        from perdure import run
        from perdure.testing.tools import keyed_effect

        def main(run):
            return keyed_effect(run.inputs["invoice"])["what"]

        run(main, inputs={"invoice": "never"})   # a script that runs itself is only loaded
        """
    )
    run_tests(
        """
import pytest

@pytest.mark.parametrize("job", ["pay.job.yaml", "pay.py:main"])
def test_it(job, crash_at, perdure_provider, assert_effects):
    passage = crash_at(job, {"invoice": "8"}, tool="keyed_effect")
    assert (passage.status, passage.result) == ("succeeded", "8"), passage
    assert_effects(perdure_provider, ["8"])
""",
        passed=2,
    )


def test_the_plugin_loads_nothing_of_the_engine_until_it_is_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy_was_loaded(request):
            assert request.config.pluginmanager.hasplugin("perdure")
            names = {name for name in sys.modules if name.startswith("perdure")}
            assert names == {"perdure", "perdure.testing", "perdure.testing.plugin"}
            assert not {"apsw", "pydantic", "ruamel"} & sys.modules.keys()
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_page_names_every_fault_and_setting_of_the_provider() -> None:
    page = (Path(__file__).parents[2] / "docs/testing.md").read_text("utf-8")
    told = set(re.findall(r"`([a-z_]+)=", page)) | set(re.findall(r"`([a-z_]+)`", page))
    names = {item.name for kind in (Fault, Settings) for item in fields(kind)}
    assert names - told == {"path", "method"}, "those are chosen by the kind of request"
    listed = page.partition("<!-- faults -->")[2].partition("<!-- end of faults -->")[0]
    assert set(re.findall(r"`([a-z_]+)=", listed)) <= {item.name for item in fields(Fault)}


def test_a_clock_moves_an_engine_of_the_test_itself(run_tests: Run) -> None:
    run_tests(
        """
import perdure
from perdure import ToolFailed, tool

refused = []

@tool(side_effect_class="external", scope=["to"], max_attempts=4)
def refuse(to):
    refused.append(to)
    raise ToolFailed("not now")

def refused_main(run):
    refuse("ann")

def test_it(perdure_clock, tmp_path):
    perdure_clock.skips_sleeps = True
    with perdure.open(state_dir=tmp_path, clock=perdure_clock, tuning=perdure.Tuning(first_retry_seconds=3600)) as engine:
        assert engine.run(refused_main).status == "failed"
    assert len(refused) == 4 and perdure_clock.monotonic() > 60
"""
    )
