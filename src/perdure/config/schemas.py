"""The published JSON Schemas of job files and policy files, made from the models that read them (draft 2020-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from perdure.config import descriptions
from perdure.config.job_schema import SECTIONS, AgentModel, ArtifactCondition, EffectCondition, JobModel
from perdure.config.policy_schema import RuleModel
from perdure.model.errors import UsageError

DRAFT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("job", "policy")
Schema = dict[str, Any]
_TARGETS = ("tool", "tool_name_regex", "namespace")


def schema_of_file(kind: str) -> Schema:
    """Return the JSON Schema of a kind of file.

    It says what can be said of a document alone: what a reference names, or whether a file exists, it cannot tell.

    Args:
        kind: ``job`` or ``policy``.

    Raises:
        UsageError: there is no such kind.
    """
    if kind not in KINDS:
        raise UsageError(f"there is no schema {kind!r}; there are: {', '.join(KINDS)}")
    made = _job() if kind == "job" else _policy()
    head = {"$schema": DRAFT, "$id": f"urn:perdure:schema:{kind}:v1", "title": f"perdure {kind} file"}
    return {**head, **made}


def _job() -> Schema:
    made = _object(JobModel, descriptions.JOB, "")
    properties: dict[str, Schema] = made["properties"]
    models: dict[str, type[BaseModel]] = {**SECTIONS, "agent": AgentModel}
    for name, model in models.items():
        properties[name] = {**_object(model, descriptions.JOB, f"{name}."), "description": descriptions.JOB[name]}
    stops: tuple[type[BaseModel], ...] = (ArtifactCondition, EffectCondition)
    conditions = [_object(model, descriptions.JOB, "stop_conditions.") for model in stops]
    properties["stop_conditions"]["items"] = {"anyOf": [{"type": "string", "pattern": r"\S"}, *conditions]}
    return made


def _policy() -> Schema:
    rule = _object(RuleModel, descriptions.POLICY, "")
    rule["properties"]["approval"] = {**_APPROVAL, "description": descriptions.POLICY["approval"]}
    rule["oneOf"] = [{"required": ["tool"]}, {"required": ["tool_name_regex"]}]
    rule["anyOf"] = [{"required": [name]} for name in rule["properties"] if name not in _TARGETS]
    names = {"type": "array", "items": {"type": "string", "minLength": 1}}
    top: dict[str, Schema] = {
        "version": {"const": 1},
        "read_only_allowlist": names,
        "side_effect_denylist": names,
        "rules": {"type": "array", "items": rule},
    }
    return {
        "type": "object",
        "properties": {name: {**part, "description": descriptions.POLICY[name]} for name, part in top.items()},
        "required": ["version"],
        "additionalProperties": False,
    }


_CONDITION: Schema = {"type": "string", "minLength": 1}
_APPROVAL: Schema = {
    "anyOf": [
        {"enum": ["never", "always"]},
        {
            "type": "object",
            "properties": {
                "when": {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {
                        "anyOf": [_CONDITION, {"type": "array", "minItems": 1, "items": _CONDITION}]
                    },
                }
            },
            "required": ["when"],
            "additionalProperties": False,
        },
    ]
}


def _object(model: type[BaseModel], said: Mapping[str, str], prefix: str) -> Schema:
    """Return the schema of a model with a description for each key, without null and without references."""
    made = model.model_json_schema()
    shared: Schema = made.get("$defs", {})
    properties = {
        name: {**_plain(part, shared), "description": said[prefix + name]} for name, part in made["properties"].items()
    }
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": made["required"]} if "required" in made else found


_DROPPED = ("title", "default", "description")


def _plain(part: Any, shared: Mapping[str, Any]) -> Any:
    """Return a part without titles, defaults and nulls: a key without a value is an error, not a default."""
    if isinstance(part, list):
        return [_plain(item, shared) for item in cast("Sequence[Any]", part)]
    if not isinstance(part, dict):
        return part
    given = cast("Schema", part)
    if "$ref" in given:
        return _plain(shared[given["$ref"].rpartition("/")[2]], shared)
    kept: Schema = {key: _plain(value, shared) for key, value in given.items() if key not in _DROPPED}
    if "anyOf" in kept:
        kept["anyOf"] = [item for item in kept["anyOf"] if item != {"type": "null"}]
        if len(kept["anyOf"]) == 1:
            return {**kept.pop("anyOf")[0], **kept}
    return kept
