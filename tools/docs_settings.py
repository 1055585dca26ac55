"""The generated blocks about settings: the keys of job and policy files, and the variables of the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from perdure.config.schemas import schema_of_file
from perdure.core.doctor import VARIABLES


def variables() -> str:
    """List the environment variables that are read, with what they mean."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    return "\n".join(["| variable | means |", "|---|---|", *rows])


def job_keys() -> str:
    """List the keys of a job file as its published schema knows them."""
    return _keys(schema_of_file("job"))


def policy_keys() -> str:
    """List the keys of a policy file as its published schema knows them."""
    return _keys(schema_of_file("policy"))


def _keys(schema: Mapping[str, Any]) -> str:
    return "\n".join(["| key | is | means |", "|---|---|---|", *_rows_of("", schema)])


def _rows_of(above: str, schema: Mapping[str, Any]) -> Iterator[str]:
    for name, value in schema.get("properties", {}).items():
        kinds = _kinds(value)
        text = str(value.get("description", "")).replace("|", "\\|")
        yield f"| `{above}{name}` | {kinds} | {text} |"
        yield from _rows_of(f"{above}{name}.", value)
        for part in (value.get("items"), *value.get("anyOf", ()), *value.get("oneOf", ())):
            if isinstance(part, Mapping) and "properties" in part:
                yield from _rows_of(f"{above}{name}[].", part)


def _kinds(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    parts = [part for key in ("anyOf", "oneOf") for part in schema.get(key, ())]
    if parts:
        return ", or ".join(dict.fromkeys(_kinds(part) for part in parts))
    found = schema.get("type", "anything")
    words = {"object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number"}
    words |= {"number": "a number", "boolean": "true or false", "null": "null"}
    return ", or ".join(words.get(one, one) for one in ([found] if isinstance(found, str) else found))


GENERATORS: dict[str, Callable[[], str]] = {
    "job-keys": job_keys,
    "policy-keys": policy_keys,
    "variables": variables,
}
