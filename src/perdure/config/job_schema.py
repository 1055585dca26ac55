"""What a job file may look like, and everything that can be wrong with one (document 000 §6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    WithJsonSchema,
)

from perdure.config.checked import Edge, NonEmpty, as_list, as_mapping, check, shown, unknown_key
from perdure.config.job import JobFile
from perdure.config.source import Document, Loc, SourceError, load_document
from perdure.core.citations import PROSE_ENDINGS, is_prose
from perdure.core.destinations import allowed_problem
from perdure.model.errors import SpecError
from perdure.model.problem import Problem
from perdure.model.secret import Secret
from perdure.ports.clock import format_time

AGENT_KINDS = ("python",)
LATER_AGENT_KINDS = frozenset({"claude", "pydantic_ai", "openai_agents", "langgraph", "command"})
SECRET_SOURCES = ("env", "file", "cmd")
_LONGEST_NAME = 200


# --- what the file may look like -------------------------------------------------------------------


def _number(value: object) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"must be a number greater than 0, not {shown(value)}")
    return value


def _name(value: str) -> str:
    if len(value) > _LONGEST_NAME or not value.isprintable() or value != value.strip():
        raise ValueError(f"must be one line of at most {_LONGEST_NAME} visible characters")
    return value


def _module(value: str) -> str:
    if value.endswith(".py") or not all(part.isidentifier() for part in value.split(".")):
        hint = f"; write {value[:-3]}" if value.endswith(".py") else ""
        raise ValueError(f"{value!r} is no importable module name{hint}")
    return value


def _relative(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value or "\0" in value or not path.parts:
        raise ValueError(f"{value!r} must be a path inside the workspace")
    return value


def _host(value: str) -> str:
    problem = allowed_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value


def _moment(value: object) -> str:
    try:
        timed = isinstance(value, str) and len(value) > len("2026-12-01")
        moment = datetime.fromisoformat(str(value)) if timed else None
        if moment is not None and moment.tzinfo is not None:
            return format_time(moment)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{value!r} is no absolute time with a zone, such as 2026-12-01T09:00:00Z")


def _agent_target(value: str) -> str:
    head, colon, function = value.rpartition(":")
    module = head.removesuffix(".py")
    names = [PurePosixPath(module).name] if head.endswith(".py") else module.split(".")
    if not colon or not all(name.isidentifier() for name in (function, *names)):
        raise ValueError(f"{value!r} is neither module:function nor file.py:function")
    return value


def _source(value: str) -> str:
    kind, _, rest = value.partition(":")
    if kind not in SECRET_SOURCES or not rest:
        raise ValueError("is no source of a secret; write env:NAME, file:PATH or cmd:COMMAND, never the secret itself")
    return value


def _secret_name(value: str) -> str:
    try:
        return Secret(value).name
    except ValueError as problem:
        raise ValueError(str(problem)) from None


Count = Annotated[StrictInt, Field(ge=1)]
Positive = Annotated[float | int, BeforeValidator(_number), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
SecretName = Annotated[NonEmpty, AfterValidator(_secret_name)]
SecretSource = Annotated[
    NonEmpty, AfterValidator(_source), WithJsonSchema({"type": "string", "pattern": "^(env|file|cmd):."})
]
_INSIDE = r"^(?!/)(?!(.*/)?\.\.(/|$))(?!\.?/*$)[^\\\x00]+$"
InWorkspace = Annotated[NonEmpty, AfterValidator(_relative), WithJsonSchema({"type": "string", "pattern": _INSIDE})]


class AgentModel(Edge):
    """``agent``."""

    python: Annotated[NonEmpty, AfterValidator(_agent_target)]
    resume: Literal["reentry", "session"] = "reentry"


class ConstraintsModel(Edge):
    """``constraints`` (R035)."""

    must_cite_sources: StrictBool | None = None
    no_duplicate_external_actions: StrictBool | None = None
    allowed_domains: list[Annotated[NonEmpty, AfterValidator(_host)]] | None = None
    forbidden_actions: list[NonEmpty] | None = None


class BudgetsModel(Edge):
    """``budgets`` (R036 to R040)."""

    max_wallclock_minutes: Positive | None = None
    max_steps: Count | None = None
    max_tool_calls: Count | None = None
    max_retries_per_tool_call: Count | None = None
    max_same_error_repeats: Count | None = None
    max_tokens: Count | None = None
    max_usd: Positive | None = None


class EscalationModel(Edge):
    """``escalation`` (R042)."""

    ask_human_on_ambiguous_recipient: StrictBool | None = None
    ask_human_on_auth_failure: StrictBool | None = None
    ask_human_on_repeated_failures: StrictBool | None = None


class ArtifactsModel(Edge):
    """``artifacts`` (R043)."""

    workspace_dir: NonEmpty | None = None
    expected_outputs: list[InWorkspace] | None = None


class ArtifactCondition(Edge):
    """A stop condition: the file exists and its hash is recorded."""

    artifact: InWorkspace


class EffectCondition(Edge):
    """A stop condition: the tool succeeded exactly so many times."""

    effect: NonEmpty
    times: Count = 1


class JobModel(Edge):
    """The top level of a job file; each section is checked on its own and says all that is wrong with it."""

    name: Annotated[NonEmpty, AfterValidator(_name)]
    objective: Annotated[str, Field(strict=True)] = ""
    agent: Any
    tools: list[Annotated[NonEmpty, AfterValidator(_module)]] = []  # noqa: RUF012 (pydantic copies defaults)
    policies: list[NonEmpty] = []  # noqa: RUF012
    inputs: dict[NonEmpty, Any] = {}  # noqa: RUF012
    constraints: Any = None
    budgets: Any = None
    deadline: Annotated[str, BeforeValidator(_moment)] | None = None
    stop_conditions: list[Any] = []  # noqa: RUF012
    escalation: Any = None
    artifacts: Any = None
    secrets: dict[SecretName, SecretSource] = {}  # noqa: RUF012
    critic: Annotated[NonEmpty, AfterValidator(_agent_target)] | None = None
    on_change: Literal["continue", "ask", "stop"] | None = None


SECTIONS: Mapping[str, type[BaseModel]] = {
    "constraints": ConstraintsModel,
    "budgets": BudgetsModel,
    "escalation": EscalationModel,
    "artifacts": ArtifactsModel,
}

# --- reading ---------------------------------------------------------------------------------------


def read_job(path: Path) -> JobFile:
    """Read and check a job file; see ``job_file.load_job``."""
    try:
        document = load_document(path)
    except SourceError as error:
        raise _refused(error.problems) from None
    raw = as_mapping(document.value)
    if raw is None:
        raise _refused([document.problem((), "a job file is a mapping with at least name and agent")])
    model, problems = check(JobModel, raw, document, ())
    agent = _agent(raw.get("agent"), document, problems)
    sections = {key: _section(key, raw, document, problems) for key in SECTIONS}
    problems += _uncheckable(sections, document)
    stops = tuple(_stop_conditions(as_list(raw.get("stop_conditions")) or [], document, problems))
    policies = tuple(_policies(as_list(raw.get("policies")) or [], path, document, problems))
    if model is None or agent is None or problems:
        raise _refused(problems)
    return JobFile(
        name=model.name,
        agent_kind="python",
        agent_target=agent.python,
        path=path,
        resume=agent.resume,
        objective=model.objective,
        tools=tuple(model.tools),
        policies=policies,
        inputs=model.inputs,
        deadline=model.deadline,
        secrets=model.secrets,
        critic=model.critic,
        on_change=model.on_change,
        stop_conditions=stops,
        places=dict(_places(document)),
        **sections,
    )


def _places(document: Document) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield where those values stand that are found wrong only when the program is loaded, or by the clock."""
    for key in ("deadline", "critic"):
        if (key,) in document.values:
            yield key, document.values[key,]
    for loc, place in document.values.items():
        if loc[0:1] in (("agent",), ("tools",)):
            yield ".".join(map(str, loc)), place


def budgets_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return budgets that stand in no file, as a job file would have them.

    Raises:
        SpecError: what is wrong with them, all of it.
    """
    try:
        return BudgetsModel.model_validate(dict(given)).model_dump(exclude_unset=True)
    except ValidationError as wrong:
        said = [f"budgets.{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in wrong.errors()]
        raise SpecError(said) from None


def _refused(problems: Iterable[Problem]) -> SpecError:
    return SpecError(sorted(problems))


def _agent(raw: object, document: Document, problems: list[Problem]) -> AgentModel | None:
    here: Loc = ("agent",)
    if raw is None:
        return None  # said already: missing, or without a value
    given = as_mapping(raw)
    if given is None:
        problems.append(document.problem(here, 'agent is a mapping, such as {python: "report:main"}'))
        return None
    later = [kind for kind in given if kind in LATER_AGENT_KINDS]
    for kind in later:
        text = f"agent kind {kind!r} is not in this version; it has: {', '.join(AGENT_KINDS)}"
        problems.append(document.problem((*here, kind), text, key=True))
    if later:
        return None
    agent, found = check(AgentModel, given, document, here)
    problems += found
    return agent


def _section(key: str, raw: Mapping[str, Any], document: Document, problems: list[Problem]) -> dict[str, Any]:
    if raw.get(key) is None:
        return {}
    given = as_mapping(raw[key])
    if given is None:
        problems.append(document.problem((key,), f"{key} must be a mapping"))
        return {}
    model, found = check(SECTIONS[key], given, document, (key,))
    problems += found
    return {} if model is None else model.model_dump(exclude_unset=True)


def _uncheckable(sections: Mapping[str, Mapping[str, Any]], document: Document) -> Iterator[Problem]:
    if sections["constraints"].get("must_cite_sources") is not True:
        return
    if not any(is_prose(path) for path in sections["artifacts"].get("expected_outputs") or ()):
        text = (
            "constraints.must_cite_sources: sources are looked for in the texts among artifacts.expected_outputs "
            f"({' '.join(sorted(PROSE_ENDINGS))}), and there is none"
        )
        yield document.problem(("constraints", "must_cite_sources"), text)


def _stop_conditions(listed: list[Any], document: Document, problems: list[Problem]) -> Iterator[Any]:
    for i, condition in enumerate(listed):
        here: Loc = ("stop_conditions", i)
        given = as_mapping(condition)
        if isinstance(condition, str) and condition.strip():
            yield condition
        elif given is None or not {"artifact", "effect"} & set(given):
            text = "a stop condition is a name, {artifact: FILE} or {effect: TOOL, times: N}"
            unknown = [key for key in given or () if key != "times"]
            hint = f"; {unknown_key(unknown[0], ('artifact', 'effect'))}" if unknown else ""
            problems.append(document.problem(here, text + hint))
        else:
            model, found = check(ArtifactCondition if "artifact" in given else EffectCondition, given, document, here)
            problems += found
            if model is not None:
                yield model.model_dump()


def _policies(listed: list[Any], path: Path, document: Document, problems: list[Problem]) -> Iterator[Path]:
    for i, entry in enumerate(listed):
        if not isinstance(entry, str) or not entry:
            continue  # said already
        overlay = path.parent / entry
        if "\0" in entry or not overlay.is_file():
            problems.append(document.problem(("policies", i), f"policies.{i}: no such file: {entry}"))
        yield overlay
