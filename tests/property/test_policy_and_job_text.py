"""Whatever stands in a file: a policy or a job comes out, or one error that lists where it is wrong."""

import json
import re
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.config.job_file import load_job
from perdure.config.policy_file import load_policy
from perdure.config.source import SourceError, parse_document
from perdure.model.errors import PolicyError, SpecError

QUICK = settings(max_examples=150, deadline=None, database=None)

POLICY = """\
version: 1
read_only_allowlist: [list_open_issues]
rules:
  - tool: send_mail
    namespace: local
    replay_policy: RECONCILE
    scope: [to]
    probe: "report:find_mail"
    approval: {when: {cents: ">10000"}}
    timeout: 30s
    allow_args: {to: ["*@example.org"]}
"""
JOB = """\
name: weekly-report
agent: {python: "report:main", resume: reentry}
inputs: {urls: ["http://127.0.0.1:8001/a.html"], to: "boss@example.org"}
budgets: {max_wallclock_minutes: 90, max_steps: 50}
deadline: 2026-12-01T09:00:00Z
stop_conditions: [{artifact: report.pdf}, {effect: send_mail, times: 1}]
"""
PIECES = st.sampled_from(
    ["&a ", "*a", "!!str ", "!x ", "? ", ": ", "- ", "[", "]", "{", "}", "'", '"', "|\n", ">\n", "---\n", "...\n",
     "%YAML 1.1\n", "#", "\t", "\n", "<<: ", "~", "null", "0x", ".nan", "1e999", "\\ud800", "\x00", "\x85", "\u2028",
     "\ufeff", "@", "`", ",", "=", "9" * 40, "- - - - ", "[[[[[[[[", "? ? ? "]
)  # fmt: skip
PLAIN = st.one_of(st.text(max_size=60), st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join))
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + draw(PIECES | st.text(max_size=4)) + text[end:]
    return text


def check_policy(folder: Path, text: str, name: str = "p.yaml") -> None:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_policy([path], base=False)
    except PolicyError as error:
        check_places(path, error)


def check_job(folder: Path, text: str, name: str = "j.yaml") -> None:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert load_job(path).spec["name"]
    except SpecError as error:
        check_places(path, error)


def check_places(path: Path, error: SpecError) -> None:
    assert error.problems
    for problem in error.problems:
        assert re.match(re.escape(str(path)) + r":[1-9][0-9]*:[1-9][0-9]*: \S", problem), problem
        assert problem.isprintable(), problem


class TestFiles:
    """One folder for all examples of a test; each example writes its file anew."""

    @settings(QUICK, max_examples=60)
    @given(text=PLAIN)
    @example(text="\ud800")
    @example(text="a: [" + "[" * 300)
    @example(text="- " * 3000)
    @example(text="? " * 3000)
    @example(text="{" * 300)
    @example(text="a: &a [*a]")
    def test_any_text(self, tmp_path_factory: object, text: str) -> None:
        folder = shared_folder(tmp_path_factory)
        check_policy(folder, text)
        check_job(folder, text)
        check_policy(folder, text, "p.json")
        check_job(folder, text, "j.json")

    @QUICK
    @given(text=damaged(POLICY))
    def test_a_damaged_policy(self, tmp_path_factory: object, text: str) -> None:
        check_policy(shared_folder(tmp_path_factory), text)

    @QUICK
    @given(text=damaged(JOB))
    def test_a_damaged_job(self, tmp_path_factory: object, text: str) -> None:
        check_job(shared_folder(tmp_path_factory), text)

    @QUICK
    @given(
        key=st.sampled_from(["name", "agent", "tools", "policies", "inputs", "budgets", "constraints", "deadline",
                             "stop_conditions", "escalation", "artifacts", "objective"]),
        value=JSONISH,
    )  # fmt: skip
    def test_any_value_in_a_job(self, tmp_path_factory: object, key: str, value: object) -> None:
        job = {"name": "x", "agent": {"python": "a:b"}, key: value}
        check_job(shared_folder(tmp_path_factory), json.dumps(job), "j.json")

    @QUICK
    @given(
        key=st.sampled_from(["tool", "tool_name_regex", "namespace", "side_effect_class", "replay_policy", "scope",
                             "volatile", "probe", "probe_lag", "key_ttl", "repeat", "approval", "max_attempts",
                             "timeout", "valid_for", "allow_args"]),
        value=JSONISH | st.builds(lambda v: {"when": v}, JSONISH),
    )  # fmt: skip
    def test_any_value_in_a_rule(self, tmp_path_factory: object, key: str, value: object) -> None:
        policy = {"version": 1, "rules": [{"tool": "a", "repeat": "ask", key: value}]}
        check_policy(shared_folder(tmp_path_factory), json.dumps(policy), "p.json")


def shared_folder(factory: object) -> Path:
    base: Path = factory.getbasetemp()  # type: ignore[attr-defined]
    return base


FINITE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=3)
    ),
    max_leaves=15,
)


@QUICK
@given(FINITE, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_json_is_read_as_json_reads_it(value: object, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse_document(text, "x.json", is_json=True).value == value


@QUICK
@given(FINITE, st.sampled_from([None, 2]))
def test_every_value_and_key_of_json_has_the_place_where_it_stands(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    document = parse_document(text, "x.json", is_json=True)
    lines = text.split("\n")
    for loc, (line, col) in document.keys.items():
        assert lines[line - 1][col - 1 :].startswith(json.dumps(loc[-1]))
    for loc, (line, col) in document.values.items():
        found = value
        for part in loc:
            found = found[part]  # type: ignore[index]
        begins = json.dumps(found, indent=indent)[:1] if isinstance(found, list | dict) else json.dumps(found)
        assert lines[line - 1][col - 1 :].startswith(begins)


@QUICK
@given(st.dictionaries(st.text("abcz", min_size=1, max_size=6), st.text("abc 'x#:-", max_size=8), max_size=4))
def test_yaml_reads_what_is_quoted(value: dict[str, str]) -> None:
    text = "".join(f"{key}: {json.dumps(text)}\n" for key, text in value.items()) or "{}"
    assert parse_document(text, "x.yaml").value == value


@QUICK
@given(PLAIN)
def test_the_reader_itself_never_fails_in_another_way(text: str) -> None:
    for is_json in (False, True):
        try:
            parse_document(text, "x", is_json=is_json)
        except SourceError as error:
            assert error.problems
