"""Tables, errors and values of the command line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from perdure.cli.failure import tell, with_flags
from perdure.cli.output import Output, ago, fields, visible
from perdure.cli.values import mapping_of, value_of
from perdure.model.errors import LeaseHeld, PolicyError, UsageError


class Terminal(io.StringIO):
    """A stream that says that a person looks at it."""

    def isatty(self) -> bool:
        return True


def test_columns_are_aligned_and_never_cut() -> None:
    long = "x" * 300
    text = Output("table", stdout=io.StringIO()).table(("A", "LONGER"), [("1", None), (long, "2")])
    lines = text.splitlines()
    assert lines == ["A".ljust(300) + "  LONGER", "1", long + "  2"]


def test_no_rows_no_table() -> None:
    assert Output("table", stdout=io.StringIO()).table(("A",), []) == ""


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_that_want_it(environ: dict[str, str], coloured: bool) -> None:
    assert ("\x1b" in Output("table", stdout=Terminal(), environ=environ).paint("failed")) is coloured
    assert Output("table", stdout=io.StringIO(), environ=environ).paint("failed") == "failed"


def test_times_are_relative_for_people_and_exact_for_programs() -> None:
    moment = "2020-01-01T00:00:00.000000Z"
    assert Output("table", stdout=io.StringIO()).when(moment) == moment
    assert Output("table", stdout=Terminal()).when(moment).endswith("d ago")
    assert Output("table", stdout=Terminal()).when(None) == ""
    assert [ago(seconds) for seconds in (-5, 0, 59.9, 60, 3_599, 3_600, 86_400 * 3)] == [
        *("0s ago", "0s ago", "59s ago", "1m ago", "59m ago", "1h ago", "3d ago"),
    ]


def test_text_of_others_cannot_move_the_cursor() -> None:
    assert visible("a\x1b[2Jb\nc\r\x07 ü\u202e") == "a\\x1b[2Jb\\nc\\r\\x07 ü\\u202e"
    assert fields([("name", "a\nb"), ("none", None), ("n", "1")]) == "name  a\\nb\nn     1\n"


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_document_is_ascii(form: str) -> None:
    stream = io.StringIO()
    Output(form, stdout=stream).answer({"rows": [{"a": "ü\u2028"}]}, str, rows="rows")
    assert stream.getvalue().isascii()
    found = json.loads(stream.getvalue())
    assert found == ({"rows": [{"a": "ü\u2028"}]} if form == "json" else {"a": "ü\u2028"})


def test_an_error_says_what_happened_what_is_safe_what_to_do_and_where_more_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = LeaseHeld("owned\nby another", next_command="wait for it, or: perdure resume r --kill-owner")
    stream = io.StringIO()
    assert tell(held, Output("json", stdout=stream), flags="--state-dir 's s'", debug=False) == 5
    assert capsys.readouterr().err.splitlines() == [
        "error[PERDURE-150]: owned",
        "  by another",
        "  safe: The owner goes on undisturbed.",
        "  next: wait for it, or: perdure --state-dir 's s' resume r --kill-owner",
        "  more: perdure help PERDURE-150",
    ]
    assert json.loads(stream.getvalue())["next"].startswith("wait for it, or: perdure --state-dir")


@pytest.mark.parametrize(
    ("problem", "exit_code", "code"),
    [
        (RuntimeError("boom"), 1, "PERDURE-900"),
        (PermissionError(13, "denied", "x"), 4, "PERDURE-400"),
        (PolicyError(["p.yaml:1:1: bad"]), 2, "PERDURE-201"),
    ],
)
def test_every_error_has_a_code(
    problem: Exception, exit_code: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tell(problem, Output("table", stdout=io.StringIO()), flags="", debug=False) == exit_code
    told = capsys.readouterr().err
    assert told.startswith(f"error[{code}]: ")
    assert "Traceback" not in told


def test_flags_are_put_into_commands_once() -> None:
    assert with_flags("perdure resume r", "") == "perdure resume r"
    assert with_flags("perdure resume r", "--state-dir s") == "perdure --state-dir s resume r"
    assert with_flags("perdure resume r --state-dir s", "--state-dir s") == "perdure resume r --state-dir s"
    assert with_flags("free the disk of perdure.db", "--state-dir s") == "free the disk of perdure.db"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ('"a"', "a"), ("null", None), ('{"a": [1, 2.5]}', {"a": [1, 2.5]}), ('{"$bytes": "YQ=="}', b"a")],
)
def test_values(text: str, value: Any) -> None:
    assert value_of(text, "--result") == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "sent", "NaN", "[Infinity]", '{"a":1,"a":2}', '{"$int":"x"}', '"\\ud800"', '{"$decimal":"x"}'),
        *("[" * 100_000, '{"$timedelta":["a"]}', '{"$set":[[]]}', '{"$map":[1]}'),
    ],
)
def test_bad_values(text: str) -> None:
    with pytest.raises(UsageError, match="--result"):
        value_of(text, "--result")
    with pytest.raises(UsageError, match="--args"):
        mapping_of("[]", "--args")
