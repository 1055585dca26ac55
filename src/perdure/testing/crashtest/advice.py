"""What each tool of a job promises when its outcome is lost, and what would make it promise more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perdure.testing.crashtest.plan import Plan

KEYED = ("create-if-absent", "keyed")


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """A tool of the job as the policy sees it.

    Args:
        probe_lag_seconds: how long a probe's "no" may be wrong.
        gets_key: whether the body can know its idempotency key at all.
        value_from: where a stand-in's value comes from; None where there is none.
        reached: whether a clean run called it.
    """

    name: str
    namespace: str
    side_effect_class: str
    replay_policy: str
    guarantee: str
    scope: tuple[str, ...] | None
    declared: bool
    gets_key: bool
    probe_lag_seconds: float
    warnings: tuple[str, ...] = ()
    value_from: str | None = None
    reached: bool = False

    @property
    def effectful(self) -> bool:
        """Whether it is of class external or memory."""
        return self.side_effect_class in ("external", "memory")

    @property
    def keyed(self) -> bool:
        """Whether its guarantee rests on the provider's memory of a key or a name."""
        return self.guarantee.split()[0] in KEYED

    @property
    def key_is_sent(self) -> bool:
        """Whether the promise can be kept: a key that the body never sees cannot be known to a provider."""
        return self.guarantee == "create-if-absent" or self.gets_key

    @staticmethod
    def of(members: Mapping[str, Any]) -> ToolFacts:
        """Return the facts that a child process wrote as JSON."""
        scope = members["scope"]
        known: dict[str, Any] = {**members, "scope": None if scope is None else tuple(scope)}
        known["warnings"] = tuple(members["warnings"])
        return ToolFacts(**known)


def stand_in_of(tool: ToolFacts, plan: Plan) -> str | None:
    """Return where the value came from that stood in for a tool, or ``None`` where its own body ran."""
    stood = tool.effectful or (plan.stub_reads and tool.value_from is not None) or tool.name in plan.returns
    return str(tool.value_from) if stood and not plan.live else None


def advice(tool: ToolFacts) -> str:
    """Return what to do for a better guarantee, in one or two sentences; empty where there is none."""
    if not tool.effectful:
        return ""
    return " ".join(filter(None, (_unclassified(tool), _guarantee(tool), _scope(tool))))


def _unclassified(tool: ToolFacts) -> str:
    if tool.declared:
        return ""
    return (
        'Nothing says what it touches, so it counts as external: if it only reads, say side_effect_class="read_only".'
    )


def _guarantee(tool: ToolFacts) -> str:
    if tool.keyed and not tool.key_is_sent:
        return "It declares key_ttl and takes no `call`: send call.idempotency_key, or nobody knows the key."
    if tool.guarantee == "ask":
        return (
            "A person is asked after each lost outcome. Give it a @probe if the provider can be searched, or send "
            "call.idempotency_key and declare key_ttl if the provider knows keys."
        )
    if tool.guarantee.startswith("keyed"):
        return "After the key has expired a person is asked; a @probe as well would answer then."
    return ""


def _scope(tool: ToolFacts) -> str:
    wording = [text for text in tool.warnings if "wording" in text]
    if wording:
        return "Its scope names wording, which may change per life: name the recipient or the target instead."
    if tool.scope is None and tool.guarantee != "create-if-absent":
        return (
            "Declare scope=[…], the arguments that say which effect it is; else any change of arguments asks a person."
        )
    return ""
