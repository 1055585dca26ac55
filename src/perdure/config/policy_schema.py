"""What a policy file may look like, and everything that can be wrong with one.

Codes of the lines: PERDURE-202 unreadable, 203 not well formed, 204 unknown key, 205 wrong value, 206 bad
duration, 207 bad pattern, 208 bad condition, 209 a replay policy without its means, 210 something is missing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt

from perdure.config.checked import (
    Duration,
    DurationOrForever,
    DurationOrZero,
    Edge,
    NonEmpty,
    as_list,
    as_mapping,
    check,
    unknown_key,
)
from perdure.config.source import Document, Loc, SourceError, load_document
from perdure.core import classify
from perdure.core.conditions import condition_problem, parse_approval
from perdure.core.policy import replay_problem
from perdure.model.errors import PolicyError
from perdure.model.policy import ListEntry, Policy, Rule
from perdure.model.problem import Problem
from perdure.model.toolcall import Repeat, ReplayPolicy, SideEffectClass

UNREADABLE, MALFORMED, UNKNOWN, VALUE = "PERDURE-202", "PERDURE-203", "PERDURE-204", "PERDURE-205"
DURATION, PATTERN, CONDITION = "PERDURE-206", "PERDURE-207", "PERDURE-208"
REPLAY, MISSING = "PERDURE-209", "PERDURE-210"
_DURATIONS = frozenset({"probe_lag", "key_ttl", "timeout", "valid_for", "approval_expires"})
_TOP_KEYS = ("version", "read_only_allowlist", "side_effect_denylist", "rules")


class RuleModel(Edge):
    """One rule as it is written; what one field means beside another is checked in :func:`_cross_checks`."""

    tool: NonEmpty | None = None
    tool_name_regex: NonEmpty | None = None
    namespace: NonEmpty | None = None
    side_effect_class: SideEffectClass | None = None
    replay_policy: ReplayPolicy | None = None
    scope: list[NonEmpty] | None = None
    volatile: list[NonEmpty] | None = None
    probe: NonEmpty | None = None
    probe_lag: DurationOrZero | None = None
    key_ttl: DurationOrForever | None = None
    repeat: Repeat | None = None
    approval: Any = None
    approval_expires: Duration | None = None
    max_attempts: Annotated[StrictInt, Field(ge=1)] | None = None
    timeout: Duration | None = None
    valid_for: Duration | None = None
    allow_args: dict[NonEmpty, list[NonEmpty]] | None = None


@dataclass(slots=True)
class _Loaded:
    """What the files gave so far."""

    rules: list[Rule] = field(default_factory=list[Rule])
    allowed: list[ListEntry] = field(default_factory=list[ListEntry])
    denied: list[ListEntry] = field(default_factory=list[ListEntry])
    files: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
    problems: list[Problem] = field(default_factory=list[Problem])


def read_overlays(paths: Sequence[Path], shipped: Policy) -> Policy:
    """Read policy files in order and put them after ``shipped``; see ``policy_file.load_policy``."""
    loaded = _Loaded(list(shipped.rules), files=list(shipped.files))
    for path in paths:
        _load(path, str(path), loaded)
    wrong = dict.fromkeys(shlex.quote(problem.file) for problem in loaded.problems)
    return _finished(loaded, f"correct it, then: perdure policy check {' '.join(wrong)}")


def read_shipped(path: Path, shown: str) -> Policy:
    """Read the base policy with all checks; the result is what ``base_policy`` gives without them."""
    loaded = _Loaded()
    _load(path, shown, loaded, shipped=True)
    return _finished(loaded, "reinstall perdure")


def _finished(loaded: _Loaded, next_command: str) -> Policy:
    if loaded.problems:
        raise PolicyError(loaded.problems, next_command=next_command)
    return Policy(
        rules=tuple(loaded.rules),
        read_only_allowlist=tuple(loaded.allowed),
        side_effect_denylist=tuple(loaded.denied),
        files=tuple(loaded.files),
        warnings=tuple(loaded.warnings),
    )


def _load(path: Path, shown: str, loaded: _Loaded, *, shipped: bool = False) -> None:
    try:
        document = load_document(path, name=shown)
    except SourceError as error:
        code = MALFORMED if error.readable else UNREADABLE
        loaded.problems += [Problem(p.file, p.line, p.col, p.text, code) for p in error.problems]
        return
    top = as_mapping(document.value)
    if top is None:
        loaded.problems.append(document.problem((), "must be a mapping that begins with version: 1", VALUE))
        return
    found = sorted(_top_problems(top, document))
    index = len(loaded.files)
    loaded.files.append(shown)
    for i, raw in enumerate(_list_at(top, "rules")):
        rule = _rule(raw, document, ("rules", i), found, index, shipped=shipped)
        if rule is not None:
            loaded.rules.append(rule)
            loaded.warnings += _warnings(rule, document, ("rules", i))
    loaded.allowed += _entries(top, "read_only_allowlist", document, index)
    loaded.denied += _entries(top, "side_effect_denylist", document, index)
    loaded.problems += sorted(found)


# --- top level -------------------------------------------------------------------------------------


def _top_problems(top: Mapping[str, Any], document: Document) -> Iterator[Problem]:
    for key in top:
        if key not in _TOP_KEYS:
            yield document.problem((key,), unknown_key(key, _TOP_KEYS), UNKNOWN, key=True)
    if "version" not in top:
        yield document.problem((), "version is missing: write version: 1", MISSING)
    elif type(top["version"]) is not int or top["version"] != 1:
        yield document.problem(("version",), f"version must be 1, not {top['version']!r}", VALUE)
    for key in _TOP_KEYS[1:]:
        if key in top and not isinstance(top[key], list):
            yield document.problem((key,), f"{key} must be a list", VALUE)
    for key in ("read_only_allowlist", "side_effect_denylist"):
        for i, name in enumerate(_list_at(top, key)):
            if not isinstance(name, str) or not name:
                yield document.problem((key, i), f"{key}.{i} must be the name of a tool, exact or a glob", VALUE)


def _list_at(top: Mapping[str, Any], key: str) -> list[Any]:
    return as_list(top.get(key)) or []


def _entries(top: Mapping[str, Any], key: str, document: Document, index: int) -> Iterator[ListEntry]:
    for i, name in enumerate(_list_at(top, key)):
        if isinstance(name, str) and name:
            yield ListEntry(document.file, document.place((key, i))[0], name, index)


# --- rules -----------------------------------------------------------------------------------------


def _rule(raw: object, document: Document, loc: Loc, found: list[Problem], index: int, *, shipped: bool) -> Rule | None:
    given = as_mapping(raw)
    if given is None:
        example = "{tool: send_mail, approval: always}"
        found.append(document.problem(loc, f"a rule is a mapping, such as {example}", VALUE))
        return None
    model, problems = check(RuleModel, given, document, loc, code_of=_code)
    problems += _cross_checks(given, document, loc)
    found += problems
    if model is None or problems:
        return None
    return Rule(
        file=document.file,
        line=document.place(loc)[0],
        tool=model.tool,
        tool_name_regex=model.tool_name_regex,
        namespace=model.namespace,
        side_effect_class=model.side_effect_class,
        replay_policy=model.replay_policy,
        scope=None if model.scope is None else tuple(model.scope),
        volatile=tuple(model.volatile or ()),
        probe=model.probe,
        probe_lag_seconds=model.probe_lag,
        key_ttl_seconds=model.key_ttl,
        repeat=model.repeat,
        approval=None if model.approval is None else parse_approval(model.approval),
        approval_expires_seconds=model.approval_expires,
        max_attempts=model.max_attempts,
        timeout_seconds=model.timeout,
        valid_for_seconds=model.valid_for,
        allow_args=None if model.allow_args is None else {k: tuple(v) for k, v in model.allow_args.items()},
        file_index=index,
        shipped=shipped,
    )


def _code(inner: Loc, kind: str) -> str:
    if kind in ("extra_forbidden", "missing"):
        return UNKNOWN if kind == "extra_forbidden" else MISSING
    return DURATION if inner and inner[0] in _DURATIONS else VALUE


def _cross_checks(raw: Mapping[str, Any], document: Document, loc: Loc) -> Iterator[Problem]:
    """Yield what no single field shows: what is missing beside it, and what a pattern or condition means."""
    yield from _target_problems(raw, document, loc)
    yield from _replay_problems(raw, document, loc)
    yield from _approval_problems(raw.get("approval"), document, (*loc, "approval"))
    probe = raw.get("probe")
    if isinstance(probe, str) and not is_reference(probe):
        yield document.problem((*loc, "probe"), f"probe: {probe!r} is not module:function", VALUE)


def _target_problems(raw: Mapping[str, Any], document: Document, loc: Loc) -> Iterator[Problem]:
    if ("tool" in raw) == ("tool_name_regex" in raw):
        many = "not both" if "tool" in raw else "and this rule has neither"
        yield document.problem(loc, f"a rule has tool or tool_name_regex, {many}", MISSING)
    pattern = raw.get("tool_name_regex")
    problem = classify.regex_problem(pattern) if isinstance(pattern, str) else None
    if problem is not None:
        yield document.problem((*loc, "tool_name_regex"), f"tool_name_regex: {problem}", PATTERN)
    if not set(raw) - {"tool", "tool_name_regex", "namespace"}:
        yield document.problem(loc, "the rule says nothing about the tool it names", MISSING)


def _replay_problems(raw: Mapping[str, Any], document: Document, loc: Loc) -> Iterator[Problem]:
    replay, cls = raw.get("replay_policy"), raw.get("side_effect_class")
    if replay not in tuple(ReplayPolicy):
        return
    subagent = classify.is_subagent(str(raw.get("namespace")), str(raw.get("tool")))
    known = SideEffectClass(cls) if cls in tuple(SideEffectClass) else None
    if known is None and replay in (ReplayPolicy.REPLAY_EXACT, ReplayPolicy.RELAUNCH) and not subagent:
        return  # the class comes from the tool; evaluate() looks at the pair
    problem = replay_problem(
        known or SideEffectClass.EXTERNAL,
        ReplayPolicy(replay),
        has_probe="probe" in raw,
        has_key_ttl="key_ttl" in raw,
        subagent=subagent,
    )
    if problem is not None:
        hint = "; a tool with a probe of its own needs no replay_policy" if "probe" in problem else ""
        yield document.problem((*loc, "replay_policy"), f"replay_policy: {problem}{hint}", REPLAY)


def _approval_problems(approval: object, document: Document, loc: Loc) -> Iterator[Problem]:
    if approval is None:
        return
    given = as_mapping(approval) or {}
    when = as_mapping(given.get("when"))
    if when and len(given) == 1:
        for name, conditions in when.items():
            yield from _condition_problems(name, conditions, document, (*loc, "when", name))
        return
    try:
        parse_approval(approval)
    except ValueError as error:
        yield document.problem(loc, str(error), VALUE)


def _condition_problems(name: str, given: object, document: Document, here: Loc) -> Iterator[Problem]:
    listed = as_list(given)
    if listed == []:
        yield document.problem(here, f"when.{name}: an empty list asks about nothing", CONDITION)
    for i, condition in enumerate([given] if listed is None else listed):
        problem = condition_problem(condition)
        if problem is not None:
            place = here if listed is None else (*here, i)
            yield document.problem(place, f"when.{name}: {problem}", CONDITION)


def is_reference(text: str) -> bool:
    """Return whether ``text`` is ``module:function``."""
    module, colon, function = text.partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _warnings(rule: Rule, document: Document, loc: Loc) -> Iterator[str]:
    for i, name in enumerate(rule.scope or ()):
        if name.lower() in classify.WORDING_FIELDS:
            yield str(
                document.problem(
                    (*loc, "scope", i),
                    f"warning: scope names {name}: wording may change per life, and is no scope",
                )
            )
    cls, replay = rule.side_effect_class, rule.replay_policy
    subagent = classify.is_subagent(str(rule.namespace), str(rule.tool))
    inert = cls is not None and not cls.effectful and replay not in (None, ReplayPolicy.REPLAY_EXACT)
    if inert and not subagent:
        text = f"warning: {replay} changes nothing: a lost {cls} call is run again"
        yield str(document.problem((*loc, "replay_policy"), text))
