"""A row that is about to be minted, and the row it becomes."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.model.toolcall import CallKey, CallRow, CallStatus, ReplayPolicy, SideEffectClass


@dataclass(frozen=True, slots=True)
class NewCall:
    """Everything a minted row holds."""

    tool_call_id: str
    run_id: str
    step_id: str
    key: CallKey
    raw_tool_name: str
    side_effect_class: SideEffectClass
    replay_policy: ReplayPolicy
    guarantee: str
    policy_rule: str | None
    effect_scope: str | None
    occurrence: int
    idempotency_key: str
    dedupe_key: str | None
    status: CallStatus
    fence: int
    branch: str
    parent_call_id: str | None
    repeat_of: str | None
    request: str
    call_index: int | None = None
    key_expires_at: str | None = None
    valid_until: str | None = None
    not_before: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    simulated: int = 0


def minted(call_no: int, new: NewCall, now: str) -> CallRow:
    """Return the row that was inserted, without reading it back."""
    running = new.status is CallStatus.RUNNING
    return CallRow(
        call_no=call_no,
        tool_call_id=new.tool_call_id,
        run_id=new.run_id,
        step_id=new.step_id,
        tool_namespace=new.key.namespace,
        tool_name=new.key.tool_name,
        side_effect_class=new.side_effect_class,
        replay_policy=new.replay_policy,
        status=new.status,
        attempt=1 if running else 0,
        occurrence=new.occurrence,
        args_hash=new.key.args_hash,
        effect_scope=new.effect_scope,
        idempotency_key=new.idempotency_key,
        fence=new.fence,
        branch=new.branch,
        parent_call_id=new.parent_call_id,
        dedupe_key=new.dedupe_key,
        repeat_of=new.repeat_of,
        key_expires_at=new.key_expires_at,
        not_before=new.not_before,
        started_at=now if running else None,
        finished_at=now if new.status.settled else None,
        error_code=new.error_code,
        error_detail=new.error_detail,
        prepared_at=now,
        valid_until=new.valid_until,
        simulated=new.simulated,
    )
