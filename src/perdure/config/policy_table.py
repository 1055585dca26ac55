"""Tables in which a user writes down what a policy must answer, for ``perdure policy test``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import StrictBool

from perdure.config.checked import Edge, NonEmpty, as_list, as_mapping, check
from perdure.config.source import Document, Loc, SourceError, load_document
from perdure.core.conditions import approval_needed, check_args
from perdure.core.policy import evaluate
from perdure.model.errors import PolicyError
from perdure.model.policy import Decision, Policy, ToolDeclaration
from perdure.model.problem import Problem
from perdure.model.toolcall import LOCAL_NAMESPACE, Repeat, ReplayPolicy, SideEffectClass

_NEXT = "perdure policy test --help"


class ExpectModel(Edge):
    """``expect`` of one test: what is left out is not looked at."""

    side_effect_class: SideEffectClass | None = None
    replay_policy: ReplayPolicy | None = None
    guarantee: NonEmpty | None = None
    approval: StrictBool | None = None
    denied: StrictBool | None = None
    repeat: Repeat | None = None
    rule: NonEmpty | None = None


class TableTest(Edge):
    """One test: a tool, maybe the arguments of a call, and what is expected."""

    tool: NonEmpty
    namespace: NonEmpty = LOCAL_NAMESPACE
    args: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies defaults)
    expect: Any


@dataclass(frozen=True, slots=True)
class Row:
    """One test as it stands in its file."""

    document: Document
    loc: Loc
    test: TableTest
    expect: Mapping[str, Any]


def read_tables(paths: Iterable[Path]) -> list[Row]:
    """Read tables of tests.

    Raises:
        PolicyError: with every problem of all files, each as ``file:line:col: text``.
    """
    problems: list[Problem] = []
    rows: list[Row] = []
    for path in paths:
        try:
            document = load_document(path)
        except SourceError as error:
            problems += error.problems
            continue
        listed = as_list(document.value)
        if not listed:
            problems.append(document.problem((), "a table is a list of tests, such as - {tool: send, expect: {…}}"))
        for i, raw in enumerate(listed or []):
            row = _row(document, (i,), raw, problems)
            if row is not None:
                rows.append(row)
    if problems:
        raise PolicyError(sorted(problems), next_command=_NEXT)
    return rows


def _row(document: Document, loc: Loc, raw: object, problems: list[Problem]) -> Row | None:
    given = as_mapping(raw)
    if given is None:
        problems.append(document.problem(loc, "a test is a mapping with tool and expect"))
        return None
    test, found = check(TableTest, given, document, loc)
    problems += found
    wanted = as_mapping(given.get("expect"))
    if wanted is None or not wanted:
        if "expect" in given:
            problems.append(document.problem((*loc, "expect"), "expect names at least one thing that must hold"))
        return None
    expect, found = check(ExpectModel, wanted, document, (*loc, "expect"))
    problems += found
    if test is None or expect is None:
        return None
    return Row(document, loc, test, expect.model_dump(exclude_unset=True))


def results(rows: Iterable[Row], policy: Policy, declared: Iterable[ToolDeclaration]) -> Iterator[dict[str, Any]]:
    """Yield what became of each test: where it stands, and what is not as it expects.

    Args:
        rows: the tests.
        policy: the rules that answer.
        declared: what registered tools say of themselves.
    """
    known = {(tool.namespace, tool.name): tool for tool in declared}
    for row in rows:
        test = row.test
        tool = known.get((test.namespace, test.tool), ToolDeclaration(test.tool, test.namespace))
        decision = evaluate(policy, tool)
        failures = list(_failures(row, decision))
        yield {
            "place": ":".join(str(part) for part in (row.document.file, *row.document.place(row.loc))),
            "tool_name": test.tool,
            "namespace": test.namespace,
            "ok": not failures,
            "failures": failures,
        }


def _failures(row: Row, decision: Decision) -> Iterator[dict[str, Any]]:
    got: dict[str, Any] = {
        "side_effect_class": str(decision.side_effect_class),
        "replay_policy": str(decision.replay_policy),
        "guarantee": decision.guarantee,
        "approval": approval_needed(decision, row.test.args),
        "denied": bool(check_args(decision, row.test.args)),
        "repeat": None if decision.repeat is None else str(decision.repeat),
        "rule": None if decision.rule is None else str(decision.rule),
    }
    for field, wanted in row.expect.items():
        found = got[field]
        same = _same_rule(wanted, found) if field == "rule" else found == wanted
        if not same:
            place = row.document.place((*row.loc, "expect", field))
            yield {
                "place": ":".join(str(part) for part in (row.document.file, *place)),
                "field": field,
                "expected": wanted if isinstance(wanted, bool) else str(wanted),
                "got": found,
                "rule": got["rule"],
            }


def _same_rule(wanted: str, found: str | None) -> bool:
    """Return whether a rule is meant: by ``file:line``, or by the file alone, with or without its folder."""
    if found is None:
        return wanted == "none"
    file = found.rpartition(":")[0]
    return wanted in (found, file, Path(found).name, Path(file).name)
