"""The rule set that classifies calls, what a tool says of itself, and the decision the two make together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from perdure.model.toolcall import Repeat, ReplayPolicy, SideEffectClass

DEFAULT_PROBE_LAG_SECONDS = 10.0


class ApprovalKind(StrEnum):
    """When a person must agree before a call is sent."""

    NEVER = "never"
    ALWAYS = "always"
    WHEN = "when"


@dataclass(frozen=True, slots=True)
class Approval:
    """Whether a person must agree first.

    Args:
        kind: never, always, or when one of the conditions holds.
        conditions: field name to condition strings; any one of them, of any field, asks.
    """

    kind: ApprovalKind
    conditions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


NO_APPROVAL = Approval(ApprovalKind.NEVER)


@dataclass(frozen=True, slots=True)
class RuleRef:
    """Where a rule or a list entry stands; prints as ``file:line``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``rules``; a field that is None was left out of the file (R086).

    Args:
        file, line: where it stands.
        tool: exact name or glob; exactly one of ``tool`` and ``tool_name_regex`` is set.
        tool_name_regex: an RE2 pattern, searched for in the name.
        probe: ``module:function``, for tools that have no probe of their own.
        file_index: the how-manieth loaded file it stands in; a later file wins a tie.
        shipped: whether it comes from the base policy, whose rules stand behind a tool's own declaration.
    """

    file: str
    line: int
    tool: str | None = None
    tool_name_regex: str | None = None
    namespace: str | None = None
    side_effect_class: SideEffectClass | None = None
    replay_policy: ReplayPolicy | None = None
    scope: tuple[str, ...] | None = None
    volatile: tuple[str, ...] = ()
    probe: str | None = None
    probe_lag_seconds: float | None = None
    key_ttl_seconds: float | None = None
    repeat: Repeat | None = None
    approval: Approval | None = None
    approval_expires_seconds: float | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    valid_for_seconds: float | None = None
    allow_args: Mapping[str, tuple[str, ...]] | None = None
    file_index: int = 0
    shipped: bool = False

    @property
    def ref(self) -> RuleRef:
        """Where the rule stands."""
        return RuleRef(self.file, self.line)


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One name (exact or glob) of ``read_only_allowlist`` or ``side_effect_denylist`` (R050)."""

    file: str
    line: int
    tool: str
    file_index: int = 0

    @property
    def ref(self) -> RuleRef:
        """Where the entry stands."""
        return RuleRef(self.file, self.line)


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules in load order, the two lists, and what the files were warned about.

    ``files`` names the loaded files in order; a later one wins a tie.
    """

    rules: tuple[Rule, ...] = ()
    read_only_allowlist: tuple[ListEntry, ...] = ()
    side_effect_denylist: tuple[ListEntry, ...] = ()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What a tool says of itself; ``side_effect_class`` is kept as it was written, valid or not (R080).

    Args:
        key_ttl_seconds: how long the provider remembers the key; infinity means for ever (create-if-absent).
        probe_lag_seconds: how long after the sender's death a probe's "no" may still be wrong.
        timeout_seconds: bound of one attempt.
        files: arguments that are paths; what the files hold belongs to a call's identity (R054).
    """

    name: str
    namespace: str = "local"
    side_effect_class: str | None = None
    replay_policy: ReplayPolicy | None = None
    scope: tuple[str, ...] | None = None
    volatile: tuple[str, ...] = ()
    key_ttl_seconds: float | None = None
    probe_lag_seconds: float = DEFAULT_PROBE_LAG_SECONDS
    timeout_seconds: float | None = None
    repeat: Repeat | None = None
    approval: Approval | None = None
    max_attempts: int | None = None
    has_probe: bool = False
    has_simulate: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loser:
    """Something that spoke about the tool and was not followed.

    Args:
        ref: ``file:line``, ``declaration`` or ``name``.
        what: what it said.
        reason: why something else was followed.
    """

    ref: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What holds for the calls of one tool, and why.

    Args:
        guarantee: ``create-if-absent``, ``keyed 24h``, ``probe``, ``ask`` or ``rerun``.
        probe: ``module:function`` from a rule; None means the tool's own probe, if ``has_probe``.
        repeat: None means that the kind of caller decides.
        rule: the rule or list entry that was followed, if any.
        why: one sentence.
        losers: everything else that spoke about this tool.
        warnings: sentences for a person, to be shown once per run.
        invalid_class: whether the declared class is none of the four words.
    """

    side_effect_class: SideEffectClass
    replay_policy: ReplayPolicy
    guarantee: str
    scope: tuple[str, ...] | None = None
    volatile: tuple[str, ...] = ()
    key_ttl_seconds: float | None = None
    probe: str | None = None
    has_probe: bool = False
    probe_lag_seconds: float = DEFAULT_PROBE_LAG_SECONDS
    repeat: Repeat | None = None
    approval: Approval = NO_APPROVAL
    approval_expires_seconds: float | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    valid_for_seconds: float | None = None
    allow_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    rule: RuleRef | None = None
    why: str = ""
    losers: tuple[Loser, ...] = ()
    warnings: tuple[str, ...] = ()
    invalid_class: bool = False
