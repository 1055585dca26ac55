"""The judge of the smoke test: facts in, a checklist out; the engine is not asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from perdure.testing.smoke.facts import Facts

EXPECTED = {"store_report": 1, "pay": 1, "send_mail": 1, "post_notice": 1, "remind": 2}
"""How often each effect must have happened; the second reminder is meant."""
REPORT = "report.txt"
ASKED = "post_notice"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the checklist."""

    name: str
    ok: bool
    found: str


def judge(facts: Facts) -> list[Check]:
    """Return the whole checklist; the build is good if every line of it is."""
    return [Check(name, *check(facts)) for name, check in _CHECKS.items()]


def _killed(facts: Facts) -> tuple[bool, str]:
    killed = [life for life in facts.lives if life.killed]
    knob = sum(life.expected == 137 for life in killed)
    wrong = _first_wrong(facts, killed=True)
    return not wrong and len(killed) > 0, wrong or (
        f"{len(killed)} times: {knob} with the result received and its receipt not stored, "
        f"{len(killed) - knob} with SIGKILL while the reply was on its way"
    )


def _resumed(facts: Facts) -> tuple[bool, str]:
    wrong = _first_wrong(facts, killed=False)
    if not wrong and facts.ledger.run_status != "succeeded":
        wrong = f"the run is {facts.ledger.run_status}"
    if not wrong and not facts.unchanged:
        wrong = "one more resume of the finished run changed something"
    return not wrong, wrong or f"succeeded after {len(facts.lives) - 1} lives; one more resume changed nothing"


def _first_wrong(facts: Facts, *, killed: bool) -> str:
    for number, life in enumerate(facts.lives, start=1):
        if life.killed is killed and not life.as_expected:
            words = " | ".join(line.strip() for line in life.words.splitlines()[:2]) or "it said nothing"
            return f"life {number} ended with {life.exit_code}, not {life.expected}: {words}"
    return ""


def _waited(facts: Facts) -> tuple[bool, str]:
    asked = ", ".join(facts.asked_about) or "nothing"
    right = facts.asked_about == (ASKED,)
    return right, f"{asked} waited for a person" + (
        ", and was not sent again" if right else f"; it must be {ASKED} alone"
    )


def _artifacts(facts: Facts) -> tuple[bool, str]:
    stored = {str(effect.get("sha256")) for effect in facts.effects if effect["what"] == "store_report"}
    found = {
        "workspace": facts.file_sha256,
        "ledger": facts.ledger.file_sha256,
        "provider": stored.pop() if len(stored) == 1 else None,
    }
    if None not in found.values() and len(set(found.values())) == 1:
        return True, f"{REPORT} is the same in workspace, ledger and provider: sha256 {str(found['workspace'])[:16]}…"
    told = ", ".join(f"{where} {str(sha)[:16] if sha else 'has none'}" for where, sha in found.items())
    return False, f"{REPORT} differs: {told}"


def _receipts(facts: Facts) -> tuple[bool, str]:
    rows = facts.ledger.rows
    states = Counter(row.status for row in rows)
    made = Counter(row.tool_name for row in rows if row.side_effect_class == "external" and row.status == "succeeded")
    wrong = _difference(made)
    if states.keys() != {"succeeded"}:
        wrong.append(f"states: {_counted(states)}")
    return not wrong, "; ".join(wrong) or f"{len(rows)} calls, each with one row, all succeeded"


def _keys(facts: Facts) -> tuple[bool, str]:
    keys = Counter(row.idempotency_key for row in facts.ledger.rows)
    doubled = sum(count > 1 for count in keys.values())
    carried = (effect.get("key") or effect.get("marker") for effect in facts.effects)
    sent = {str(key) for key in carried if key}
    strange = sent - keys.keys()
    if doubled or strange or not sent:
        return (
            False,
            f"{doubled} keys stand twice in the ledger; {len(strange)} of {len(sent)} sent ones are not its own",
        )
    return True, f"{len(keys)} keys, none twice; the {len(sent)} that the provider was sent are among them"


def _provider(facts: Facts) -> tuple[bool, str]:
    counts = Counter(str(effect["what"]) for effect in facts.effects)
    wrong = _difference(counts)
    return not wrong, "; ".join(wrong) or f"it counted {_counted(counts)} (the second reminder is meant)"


def _sound(facts: Facts) -> tuple[bool, str]:
    ledger = facts.ledger
    sound = ledger.integrity == "ok" and not ledger.duplicates_found and not ledger.unmet
    return sound, (
        f"integrity_check: {ledger.integrity}; duplicates found: {ledger.duplicates_found}; "
        f"effects nobody asked for again: {ledger.unmet}"
    )


def _difference(counts: Counter[str]) -> list[str]:
    names = [*EXPECTED, *(name for name in counts if name not in EXPECTED)]
    return [f"{n}: {counts[n]}, not {EXPECTED.get(n, 0)}" for n in names if counts[n] != EXPECTED.get(n, 0)]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"


_CHECKS: dict[str, Callable[[Facts], tuple[bool, str]]] = {
    "killed": _killed,
    "resumed": _resumed,
    "asked": _waited,
    "artifacts": _artifacts,
    "receipts": _receipts,
    "keys": _keys,
    "provider": _provider,
    "ledger": _sound,
}
