"""Draws random schedules: the same seed and number give the same one."""

from __future__ import annotations

import random
from typing import Any

from tests.soak.pieces import SOURCES
from tests.soak.schedule import Kill, Piece, Plan, Schedule, Trouble

POINTS_BEFORE_MAIN, POINTS_A_CALL, POINTS_OF_A_RESUME, POINTS_OF_AN_ANSWER = 14, 6, 40, 12
SAME_KEY = ("keyed", "create")  # a request that lands late meets the key or the name of the one that was sent again
CLOCK_STEPS = (-86_400.0, -3_600.0, 3_600.0, 172_800.0)


def drawn(seed: int, number: int) -> Schedule:
    """The schedule with this number."""
    draw = random.Random(f"{seed}:{number}")
    piece = draw.choices(list(SOURCES), list(SOURCES.values()))[0](draw)
    lives = tuple(plan_of(draw, piece, life) for life in range(draw.randint(1, 4)))
    by_command = draw.random() < 0.15
    return Schedule(
        f"random:{seed}:{number}",
        piece,
        lives,
        person_of(draw, piece),
        answers="forked" if by_command else "library",
        answer_at_point=draw.randint(0, POINTS_OF_AN_ANSWER) if by_command else 0,
        answer_resumes=by_command and draw.random() < 0.5,
    )


def person_of(draw: random.Random, piece: Piece) -> str:
    """Who answers: mostly somebody honest."""
    return draw.choices(["honest", "gives_up", "denies"], [8, 1, 1] if piece.tolerant else [1, 0, 0])[0]


def plan_of(draw: random.Random, piece: Piece, life: int) -> Plan:
    """What happens to one life."""
    troubles = [_trouble(draw, piece, name) for name in piece.kinds if draw.random() < 0.2]
    if "searchable" in piece.kinds.values() and draw.random() < 0.15:
        how: dict[str, Any] = draw.choice([{"reject_before_effect": 500}, {"drop_reply_after_effect": True}])
        troubles.append(Trouble("search", None, how))
    if "searchable" in piece.kinds.values() and life == 0 and draw.random() < 0.05:
        troubles.append(Trouble("miss", None, {}))
    kill = _kill(draw, piece, life)
    return Plan(
        kill,
        tuple(troubles),
        rival=draw.random() < 0.1 and _may_have_rival(kill),
        forget_keys=draw.random() < 0.5,
        clock_ahead_seconds=draw.choice(CLOCK_STEPS) if draw.random() < 0.03 else 0.0,
    )


def _may_have_rival(kill: Kill | None) -> bool:
    """A rival may take over at once: only a request with a key may then still land."""
    return kill is None or (kill.how != "stop" and (kill.how != "held_before" or kill.kind in SAME_KEY))


def _kill(draw: random.Random, piece: Piece, life: int) -> Kill:
    calls = sum(piece.program.effects.values())
    how = draw.choices(["point", "line", "held", "held_before", "stop", "soon"], [8, 4, 3, 3, 1, 3])[0]
    if how == "point":
        far = POINTS_BEFORE_MAIN + POINTS_A_CALL * calls
        return Kill(
            how, draw.randint(POINTS_BEFORE_MAIN // 2, far) if life == 0 else draw.randint(1, POINTS_OF_A_RESUME)
        )
    if how == "line":
        return Kill(how, draw.randint(1, 1 + 2 * calls))
    if how == "soon":
        return Kill(how, draw.randint(1, 25 + 3 * calls))
    name, kind = draw.choice(sorted(piece.kinds.items()))
    if how == "stop":
        return Kill(how, name=name, kind=kind, wakes=draw.random() < 0.5)
    return Kill(how, name=name, kind=kind, late=kind in SAME_KEY and draw.random() < 0.4)


def _trouble(draw: random.Random, piece: Piece, name: str) -> Trouble:
    kind = piece.kinds[name]
    menu: list[dict[str, Any]] = [
        {"drop_reply_after_effect": True},
        {"cut_reply_after_effect": True},
        {"delay_after_effect_seconds": 0.02},
    ]
    if piece.ordinary:
        menu += [{"status_after_effect": 500}, {"reject_before_effect": 500}]
    if kind in SAME_KEY:
        menu += [{"delay_before_effect_seconds": 0.03}]
    if kind != "searchable" or piece.lags:
        # Nobody but a person settles a plain call, and ours waits until everything has landed.
        menu += [{"land_late_seconds": draw.choice([0.02, 0.1])}]
    return Trouble(kind, name, dict(draw.choice(menu), skip=draw.choice([0, 0, 1])))
