"""The operator's crash knobs: their forms, what must match together, the loud exit, and silence when they are unset."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure.model.errors import UsageError
from perdure.ports.store import no_crash_point
from perdure.runtime.crashpoints import Knobs, Place

PREFIX = "PERDURE_TEST_CRASH_"
SEND = Place("r1.s1", "mails", "deliver", "send_mail", "r1.3")

# Reports what happened to a run of three calls in two steps, with numbered points of the store between them.
CHILD = """
import os
from perdure.runtime.crashpoints import Knobs, Place

knobs = Knobs(os.environ)
store = knobs.crash_point

def call(step, name, phase, tool, number):
    place = Place(step, name, phase, tool, f"r1.{number}")
    store("before commit")
    knobs.before_tool(place)
    print(f"call {number}", flush=True)
    knobs.tool_returned(place)
    store("before commit")

call("r1.s1", "pages", "gather", "fetch", 1)
call("r1.s1", "pages", "gather", "fetch", 2)
knobs.step_ended(Place("r1.s1", "pages", "gather"))
print("step pages", flush=True)
call("r1.s2", "mails", "deliver", "fetch", 3)
call("r1.s2", "mails", "deliver", "send_mail", 4)
knobs.step_ended(Place("r1.s2", "mails", "deliver"))
print("step mails", flush=True)
"""
ALL = ["call 1", "call 2", "step pages", "call 3", "call 4", "step mails"]


def run_with(knobs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the child under the given knobs."""
    environ = {PREFIX + name: value for name, value in knobs.items()}
    return subprocess.run([sys.executable, "-c", CHILD], env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("knobs", "done", "where"),
    [
        ({"AFTER_TOOL": "fetch"}, 1, "after tool fetch call r1.1"),
        ({"AFTER_TOOL": "send_mail"}, 5, "after tool send_mail call r1.4"),
        ({"AFTER_TOOL_CALL_ID": "r1.2"}, 2, "after tool fetch call r1.2"),
        ({"AFTER_PHASE": "gather"}, 2, "after step pages phase gather"),
        ({"AFTER_PHASE": "deliver"}, 5, "after step mails phase deliver"),
        ({"AFTER_STEP": "mails"}, 5, "after step mails phase deliver"),
        ({"AFTER_STEP": "r1.s1"}, 2, "after step pages phase gather"),
        ({"AT_POINT": "1"}, 0, "at point 1: before commit"),
        ({"AT_POINT": "2"}, 0, "at point 2: before tool fetch (r1.1)"),
        ({"AT_POINT": "3"}, 1, "at point 3: after tool fetch (r1.1)"),
        ({"AT_POINT": "16"}, 5, "at point 16: before commit"),
        # Together they must all match, and a tool's knob decides where.
        ({"AFTER_TOOL": "fetch", "AFTER_STEP": "mails"}, 4, "after tool fetch call r1.3"),
        ({"AFTER_TOOL": "fetch", "AFTER_PHASE": "deliver"}, 4, "after tool fetch call r1.3"),
        ({"AFTER_TOOL": "fetch", "AFTER_TOOL_CALL_ID": "r1.3"}, 4, "after tool fetch call r1.3"),
        ({"AFTER_TOOL": "fetch", "AT_POINT": "7"}, 2, "after tool fetch call r1.2"),
        ({"AFTER_STEP": "mails", "AFTER_PHASE": "deliver"}, 5, "after step mails phase deliver"),
    ],
)
def test_a_knob_ends_the_process_where_it_says(knobs: dict[str, str], done: int, where: str) -> None:
    ended = run_with(knobs)
    assert ended.returncode == 137
    assert ended.stdout.splitlines() == ALL[:done]
    assert ended.stderr == f"PERDURE CRASH {where}\n"


@pytest.mark.parametrize(
    "knobs",
    [
        {"AFTER_TOOL": "upload"},
        {"AFTER_TOOL": "fetc"},
        {"AFTER_TOOL_CALL_ID": "r1.9"},
        {"AFTER_PHASE": "Gather"},
        {"AFTER_STEP": "r1.s9"},
        {"AFTER_TOOL": "send_mail", "AFTER_STEP": "pages"},
        {"AFTER_STEP": "mails", "AFTER_PHASE": "gather"},
        {"AFTER_TOOL": "fetch", "AT_POINT": "1"},
        {"AT_POINT": "17"},
    ],
)
def test_a_knob_that_did_not_fire_says_so_at_the_end(knobs: dict[str, str]) -> None:
    ended = run_with(knobs)
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == ALL
    named = ", ".join(f"{PREFIX}{name}={value}" for name, value in sorted(knobs.items()))
    counted = "; 16 points were passed" if "AT_POINT" in knobs else ""
    assert ended.stderr == f"perdure: crash knob did not fire: {named}{counted}\n"


def test_without_knobs_nothing_is_counted_or_said() -> None:
    ended = run_with({})
    assert (ended.returncode, ended.stdout.splitlines(), ended.stderr) == (0, ALL, "")
    inert = Knobs({"PATH": "/bin", "PERDURE_HOME": "x"})
    assert inert.crash_point is no_crash_point
    inert.before_tool(SEND)
    inert.tool_returned(SEND)
    inert.step_ended(SEND)


@pytest.mark.parametrize(
    ("name", "value", "form"),
    [
        ("AT_POINT", "0", "a number from 1"),
        ("AT_POINT", "-1", "a number from 1"),
        ("AT_POINT", "x", "a number from 1"),
        ("AT_POINT", "1.5", "a number from 1"),
        ("AT_POINT", "", "a number from 1"),
        ("AT_POINT", "3\n", "a number from 1"),
        ("AT_POINT", "٣", "a number from 1"),
        ("AFTER_TOOL", "", "a tool name"),
        ("AFTER_TOOL", "send mail", "a tool name"),
        ("AFTER_TOOL", "3mail", "a tool name"),
        ("AFTER_TOOL_CALL_ID", "r1", "a tool_call_id"),
        ("AFTER_TOOL_CALL_ID", "r1.0", "a tool_call_id"),
        ("AFTER_TOOL_CALL_ID", "r1.x", "a tool_call_id"),
        ("AFTER_TOOL_CALL_ID", ".1", "a tool_call_id"),
        ("AFTER_PHASE", "", "a phase name"),
        ("AFTER_PHASE", " gather", "a phase name"),
        ("AFTER_STEP", "", "a step id or name"),
        ("AFTER_STEP", "mails ", "a step id or name"),
    ],
)
def test_a_value_of_the_wrong_form_is_an_error_at_start(name: str, value: str, form: str) -> None:
    with pytest.raises(UsageError) as error:
        Knobs({PREFIX + name: value})
    assert f"{PREFIX}{name}={value!r} is not {form}" in str(error.value)
    assert error.value.exit_code == 2


def test_an_unknown_knob_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as error:
        Knobs({PREFIX + "BEFORE_LUNCH": "1"})
    for name in ("AFTER_TOOL", "AFTER_TOOL_CALL_ID", "AFTER_PHASE", "AFTER_STEP", "AT_POINT"):
        assert PREFIX + name in str(error.value)


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(UsageError) as error:
        Knobs({PREFIX + "AT_POINT": "x", PREFIX + "AFTER_TOOL": "", PREFIX + "NEVER": "1"})
    assert len(str(error.value).splitlines()) == 3
