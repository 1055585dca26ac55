"""The programs of the loops; what they ask for is what the provider must have seen in the end."""

from tests.crash.loop import Fault, Program

EFFECTS = dict.fromkeys(("create", "keyed", "probed", "asked", "last"), 1)
REFERENCE = Program("reference:main", EFFECTS, result_names_effects=True)
REFERENCE_ASYNC = Program("reference_async:main", EFFECTS, result_names_effects=True)
BY_A_CHILD = Program("children:main", {"sent": 1, "told": 1}, result_names_effects=True)
THREADS = Program(
    "waiting:threads", dict.fromkeys(("thread0", "thread1", "called", "sent"), 1), result_names_effects=True
)
TEN = {f"to{k}": 1 for k in range(10)}
THREE = {"reminder": 3}


def mails(function: str, tool: str, *, quarrels: bool = False) -> Program:
    """Ten mails or three reminders, with one of the tools of `jobs/mails.py`."""
    ten = function.startswith("ten")
    return Program(
        f"mails:{function}", TEN if ten else THREE, {"tool": tool}, quarrels=quarrels, result_names_effects=ten
    )


def memo_with_effects(tool: str) -> Program:
    """Two calls inside a memo and one after it."""
    effects = dict.fromkeys(("inner0", "inner1", "outer"), 1)
    return Program("hard:memo_with_effects", effects, {"tool": tool}, result_names_effects=True)


def changed(tool: str) -> Program:
    """Another wording after each crash; whether it is the same mail is asked."""
    return Program("hard:changed", {"mail": 1}, {"tool": tool}, questions=("challenge",))


def deduped(tool: str) -> Program:
    """Another wording in every life, under one dedupe key."""
    return Program("hard:deduped", {"mail": 1}, {"tool": tool})


DECLINED = Program(
    "hard:declined", {"paid": 1}, faults=(Fault("keyed", "paid", {"reject_before_effect": 402}),), failures=(0, 1)
)
RETRIED = Program(
    "hard:retried",
    {"first": 1, "second": 1},
    faults=(Fault("keyed", "first", {"reject_before_effect": 503, "next": 2}),),
    result_names_effects=True,
)
LOST_REPLIES = Program(
    "hard:lost_replies",
    dict.fromkeys(("keyed_scoped", "probed_scoped", "asked_scoped", "keyed_open"), 1),
    faults=tuple(
        Fault(kind, name, {"drop_reply_after_effect": True})
        for name, kind in (("keyed_scoped", "keyed"), ("probed_scoped", "searchable"), ("asked_scoped", "plain"),
                           ("keyed_open", "keyed"))
    ),
    result_names_effects=True,
)  # fmt: skip
TWO_MINDS = Program("hard:two_minds", {"right": 1}, questions=("approval",))


def model_loop(function: str) -> Program:
    """Three effects of one answer, and one of them once more on purpose, by a model whose answers are random."""
    return Program(f"turns:{function}", {"keyed": 2, "probed": 1, "asked": 1}, failures=(2,))


STUBBORN = Program("turns:stubborn", {"keyed": 2}, failures=(2,))
