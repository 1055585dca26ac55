"""What a life is made of, and how that differs from the life before it. Pure: two documents in, sentences out.

A difference is shown or asked about, never an error by itself: nothing is replayed, so that nothing needs to be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fingerprint = Mapping[str, Any]
_FIELDS = {
    "side_effect_class": "its class",
    "replay_policy": "its replay policy",
    "scope": "its effect scope",
    "guarantee": "its guarantee",
    "approval": "its approval",
    "arguments": "its arguments",
}
_VERSIONS = ("perdure", "python", "model")


def differences(before: Fingerprint, now: Fingerprint) -> list[str]:
    """Return what has changed between two fingerprints, one sentence each, the most telling first.

    Args:
        before: of the life before.
        now: of the life that is about to begin.
    """
    found = _tools(before.get("tools", {}), now.get("tools", {}), same_python=before.get("python") == now.get("python"))
    found += _named("policy", before.get("policies", {}), now.get("policies", {}))
    found += _named("code", before.get("code", {}), now.get("code", {}))
    if before.get("agent") != now.get("agent") and before.get("python") == now.get("python"):
        found.append("agent: its function changed")
    for name in _VERSIONS:
        if before.get(name) != now.get(name) and None not in (before.get(name), now.get(name)):
            found.append(f"{name}: {before[name]} → {now[name]}")
    if before.get("prompt") != now.get("prompt") and None not in (before.get("prompt"), now.get("prompt")):
        found.append("prompt: it changed")
    return found


def _tools(before: Mapping[str, Any], now: Mapping[str, Any], *, same_python: bool) -> list[str]:
    found: list[str] = []
    for name in sorted({*before, *now}):
        if name not in before:
            found.append(f"tool {name}: it is new")
        elif name not in now:
            found.append(f"tool {name}: it is gone")
        else:
            was, is_now = before[name], now[name]
            found += [
                f"tool {name}: {told}: {_shown(was.get(field))} → {_shown(is_now.get(field))}"
                for field, told in _FIELDS.items()
                if was.get(field) != is_now.get(field)
            ]
            if same_python and was.get("code") != is_now.get("code"):  # another Python compiles everything anew
                found.append(f"tool {name}: its code changed")
    return found


def _named(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    words = {(True, True): "it changed", (True, False): "it is gone", (False, True): "it is new"}
    return [
        f"{what} {name}: {words[name in before, name in now]}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
