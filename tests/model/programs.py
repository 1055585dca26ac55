"""Small programs, what each may end in, and the broken rules each of them shows up."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.model.explore import End
from tests.model.words import Call, Fail, Gather, Memo, Only, Program, Step, Timeout, Tool, Try

PICKY = Tool("picky", repeat="challenge", refuses="b")
MAIL = Tool("mail")  # nobody but a person can tell what became of it
POST = Tool("post", "probed")
PAY = Tool("pay", "keyed")
PUT = Tool("put", "create")
READ = Tool("read", "read")
CARD = Tool("card", declines=1)  # declines the first request
BANK = Tool("bank")
STRICT = Tool("strict", repeat="challenge")
ASKED = Tool("asked", repeat="ask")
BARRED = Tool("barred", denied=True)
LOST = Tool("lost", gone=True)  # nobody can ever tell what became of it

a, b, c = (Call(MAIL, text) for text in "abc")
LATER = tuple(range(2, 9))


class Case(NamedTuple):
    """A program and its promise: the effects it may have had, or what else must hold of every end."""

    program: Program
    allowed: tuple[tuple[str, ...], ...] = ()
    holds: Callable[[End], bool] | None = None
    status: str = "succeeded"
    challenges: bool = False  # whether a person may be asked `same` or `another`
    unmet: bool = False  # whether effects may stand that the last life did not ask for
    crashes: int = 1

    def broken_by(self, end: End) -> str | None:
        """What is wrong with an end, or None."""
        if end.status != self.status:
            return f"ended {end.status}"
        if end.uncalled:
            return f"sent, and nobody asked for it any more: {end.uncalled}"
        if self.allowed and end.effects not in self.allowed:
            return f"effects {end.effects}"
        if end.challenges and not self.challenges:
            return f"a question about nothing, effects {end.effects}"
        if end.unmet and not self.unmet:
            return f"not asked for by the last life: {end.unmet}"
        if self.holds is not None and not self.holds(end):
            return f"effects {end.effects}, unmet {end.unmet}, questions {end.challenges}"
        return None


def exactly(*steps: Step, effects: str, crashes: int = 1, **how: Any) -> Case:
    """A deterministic program: these effects, each as often as written, and no question at all."""
    return Case(Program(steps, **how), (tuple(sorted(effects.split(", "))),), crashes=crashes)


def each_once(end: End) -> bool:
    """However it was worded: nothing that was meant once was done twice, or left out."""
    return len(set(end.meant)) == len(end.meant)


def one_is_listed(end: End) -> bool:
    """A timer is not durable: both may be done, one in each of two lives, and then one of them is listed as unmet."""
    return bool(end.effects) and len(end.effects) == 1 + len(end.unmet)


def left_behind_is_listed(end: End) -> bool:
    """Where both lives had their way, what only the cut-off one asked for is listed."""
    both = {"mail a", "mail b"} <= set(end.effects)
    return len(end.effects) == 2 + both and (end.unmet == ("mail a",)) == both


def branches(*sides: tuple[Step, ...]) -> Gather:
    return Gather(sides)


CASES: dict[str, Case] = {
    "three mails": exactly(a, b, c, effects="mail a, mail b, mail c", crashes=2),
    "three equal reminders": exactly(a, a, a, effects="mail a, mail a, mail a", crashes=2),
    "three equal reminders, probed": exactly(*[Call(POST, "a")] * 3, effects="post a, post a, post a", crashes=2),
    "three equal payments": exactly(*[Call(PAY, "a")] * 3, effects="pay a, pay a, pay a", crashes=2),
    "create if absent": exactly(Call(PUT, "a"), Call(PUT, "a"), effects="put a", crashes=2),
    "a read between": exactly(a, Call(READ, "r"), a, effects="mail a, mail a", crashes=2),
    "two branches": exactly(branches((a,), (b,)), effects="mail a, mail b"),
    "branches of two": exactly(branches((a, b), (c,)), effects="mail a, mail b, mail c"),
    "twins": exactly(branches((a,), (a,)), effects="mail a, mail a"),
    "probed twins": exactly(branches((Call(POST, "a"),), (Call(POST, "a"),)), effects="post a, post a"),
    "keyed beside probed": exactly(branches((Call(PAY, "a"),), (Call(POST, "a"),)), effects="pay a, post a"),
    "one scope, two texts": exactly(Call(MAIL, "a", "you"), Call(MAIL, "b", "you"), effects="mail a, mail b"),
    "memo, then the same": exactly(Memo("m", (a,)), a, effects="mail a, mail a", crashes=2),
    "memo beside the same": exactly(branches((Memo("m", (a,)),), (a,)), effects="mail a, mail a"),
    "memo in a memo": exactly(Memo("m", (a, Memo("n", (a,)))), a, effects="mail a, mail a, mail a"),
    "branches after a met memo": exactly(
        Memo("m", (branches((a,), (a,)),)),
        branches((b,), (Memo("n", (b,)),)),
        effects="mail a, mail a, mail b, mail b",
    ),
    "a memo that asks for something else": Case(
        Program(
            (
                Memo(
                    "m",
                    (
                        Only((1,), (Call(MAIL, "a", "you"),)),
                        Only(LATER, (Call(MAIL, "b", "me"),)),
                        Call(MAIL, "c", "them"),
                    ),
                ),
            )
        ),
        holds=left_behind_is_listed,
        unmet=True,
    ),
    "equal memos": exactly(Memo("m", (a,)), Memo("m", (a,)), effects="mail a, mail a", crashes=2),
    "twins joined": exactly(branches((a,), (a,)), a, effects="mail a", no_duplicates=True),
    "restored session": exactly(a, a, b, a, effects="mail a, mail a, mail a, mail b", session=True, crashes=2),
    "one dedupe key": exactly(Call(MAIL, "a", key="K"), Call(MAIL, "b", key="K"), effects="mail a", crashes=2),
    "deliberate repeat, cited": exactly(
        Call(STRICT, "a", label="1"), Call(STRICT, "a", cites="1"), effects="strict a, strict a", crashes=2
    ),
    "one receipt, cited twice": exactly(
        Call(STRICT, "a", label="1"),
        branches(*[(Try((Call(STRICT, "a", cites="1"),), ()),)] * 2),
        effects="strict a, strict a",
    ),
    "a repeat that was declined, cited again": Case(
        Program(
            (
                Call(PICKY, "a", "you", label="1"),
                Try((Call(PICKY, "b", "you", cites="1"),), (Call(PICKY, "c", "you", cites="1"),)),
            )
        ),
        (("picky a", "picky c"),),
    ),
    "a repeat asked about": Case(
        Program((Call(ASKED, "a"), Call(ASKED, "b", "x"), Call(ASKED, "c", "x")), waits=True),
        (("asked a", "asked b", "asked c"),),
        holds=lambda end: end.challenges > 0,
        challenges=True,
    ),
    "another scope under one key": Case(
        Program((Call(MAIL, "a", "you", key="K"), Try((Call(MAIL, "b", "me", key="K"),), (Call(MAIL, "c", "me"),)))),
        (("mail a", "mail c"),),
    ),
    "repeats allowed to all, another text": Case(
        Program((Call(MAIL, "t", varies=True),), no_duplicates=False),
        holds=lambda end: len(end.effects) == 1 + len(end.unmet),
        unmet=True,
    ),
    "raised, not asked": Case(
        Program((branches((Call(MAIL, "a", manner="raise"),), (Call(MAIL, "b", manner="return"),)), Call(MAIL, "a"))),
        (("mail a", "mail a", "mail b"),),
    ),
    "another text, raised": Case(
        Program(
            (Try((Call(MAIL, "t", varies=True, manner="raise"),), ()), Call(MAIL, "u", varies=True, manner="return"))
        ),
        holds=each_once,
        unmet=True,
    ),
    "forbidden, then another way": exactly(
        Try((Call(BARRED, "a"),), (a,)), Try((Call(BARRED, "a"),), (a,)), effects="mail a, mail a"
    ),
    "forbidden": Case(Program((a, Call(BARRED, "a")), resumes=1), (("mail a",),), status="failed"),
    "given up": Case(
        Program((Try((Call(LOST, "a"),), (b,)), a)),
        (("lost a", "mail a"), ("lost a", "mail a", "mail b"), ("mail a", "mail b")),
    ),
    "stale citation": exactly(
        Call(STRICT, "a", label="1"),
        Call(STRICT, "a", cites="1"),
        Try((Call(STRICT, "a", cites="1"),), ()),
        effects="strict a, strict a",
    ),
    "declined, then another card": Case(
        Program((Try((Call(CARD, "1"),), (Call(BANK, "1"),)), a)),
        (("bank 1", "mail a"), ("card 1", "mail a")),
        crashes=2,
    ),
    "declined in a memo": Case(
        Program((Try((Memo("m", (Call(CARD, "1"),)),), (Call(BANK, "1"),)), a)),
        (("bank 1", "mail a"), ("card 1", "mail a")),
        crashes=2,
    ),
    "declined, resumed": exactly(a, Call(CARD, "1"), b, effects="card 1, mail a, mail b", resumes=2, crashes=2),
    "declined in a memo, resumed": exactly(
        Memo("m", (a, Call(CARD, "1"))), effects="card 1, mail a", resumes=2, crashes=2
    ),
    "own error": Case(Program((a, Fail())), (("mail a",),), status="failed"),
    "out of patience, undisturbed": Case(
        Program((Timeout((Call(BANK, "1"),), (Call(Tool("card2"), "1"),)),)), (("bank 1",), ("card2 1",)), crashes=0
    ),
    "out of patience": Case(
        Program((Timeout((Call(BANK, "1"),), (Call(Tool("card2"), "1"),)),)),
        holds=one_is_listed,
        unmet=True,
        crashes=2,
    ),
    "out of patience in a memo": Case(
        Program((Timeout((Memo("m", (Call(BANK, "1"),)),), (Call(Tool("card2"), "1"),)),)),
        holds=one_is_listed,
        unmet=True,
    ),
    "another text in each life": Case(
        Program((Call(MAIL, "t", varies=True), Call(MAIL, "u", varies=True)), waits=True),
        holds=each_once,
        challenges=True,
        crashes=2,
    ),
    "another text, one scope": Case(
        Program((Call(MAIL, "t", "you", varies=True), Call(MAIL, "u", "me", varies=True)), waits=True),
        holds=each_once,
        challenges=True,
        crashes=2,
    ),
    "code changed": Case(
        Program((Only((1,), (a,)), Only(LATER, (b,)))),
        (("mail b",), ("mail a", "mail b"), ("mail a",)),
        challenges=True,
        unmet=True,
    ),
    "code changed, asked again": exactly(
        Only((1,), (Call(MAIL, "a", key="K"),)),
        Only((2,), (Fail(),)),
        Only(tuple(range(3, 9)), (Call(MAIL, "a", key="K"),)),
        effects="mail a",
        resumes=1,
    ),
}

# Which program shows that a rule was broken, and after how many crashes; the names are those of the rules' text where it gives one.
MUTANTS: dict[str, tuple[str, int]] = {
    "no held": ("twins", 1),
    "cancel not held back": ("out of patience, undisturbed", 0),
    "quarantine skipped": ("three equal reminders, probed", 1),
    "void row found by dedupe_key": ("code changed, asked again", 1),
    "probe beside a running twin": ("probed twins", 1),
    "base = checkpoint": ("three mails", 1),
    "memo does not enclose": ("memo, then the same", 1),
    "challenge at once": ("two branches", 1),
    "failed re-tried": ("declined, then another card", 1),
    "settle sends prepared": ("code changed", 1),
    "citation of a non-newest kin": ("stale citation", 1),
    "probe without ref": ("three equal reminders, probed", 1),
    "a verdict that outlives its pair": ("another text in each life", 2),
    "a new key for each attempt": ("three equal payments", 1),
    "session sees nothing": ("restored session", 1),
    "adopted from under a finished call": ("memo beside the same", 1),
    "a finished call keeps what it did not meet": ("branches after a met memo", 1),
    "adoption leaves a row where it was": ("memo beside the same", 2),
    "a citation allowed twice": ("one receipt, cited twice", 1),
    "a failed row spends its citation": ("a repeat that was declined, cited again", 1),
    "a denied call is reopened": ("forbidden", 1),
    "abandoned re-tried": ("given up", 1),
    "a key of another scope joins": ("another scope under one key", 1),
    "only what is seen is joined": ("twins joined", 1),
}


def some_call(draw: random.Random) -> Call:
    """Few texts, so that equal calls are common."""
    return Call(draw.choice([MAIL, MAIL, POST, PAY]), draw.choice("aab"))


def some_steps(draw: random.Random, calls: int, depth: int = 0) -> tuple[Step, ...]:
    """A deterministic program of so many calls, with memos and branches."""
    steps: list[Step] = []
    while calls > 0:
        kind = draw.random()
        if kind < 0.5 or depth > 1:
            steps.append(some_call(draw))
            calls -= 1
        elif kind < 0.7 or calls == 1:
            inner = draw.randint(1, calls)
            body = some_steps(draw, inner, depth + 1)
            steps.append(Memo(f"m{written(body)}", body))  # a name stands for one computation
            calls -= inner
        else:
            inner = draw.randint(1, calls - 1)
            sides = (some_steps(draw, inner, depth + 1), some_steps(draw, calls - inner, depth + 1))
            steps.append(Gather(sides))
            calls = 0
    return tuple(steps)


def written(steps: tuple[Step, ...]) -> str:
    """A program in one line, for a failure's message."""
    words = []
    for step in steps:
        match step:
            case Call():
                words.append(f"{step.tool.name} {step.args}")
            case Memo():
                words.append(f"memo({written(step.body)})")
            case Gather():
                words.append(f"gather({' | '.join(written(side) for side in step.branches)})")
            case _:
                words.append(str(step))
    return "; ".join(words)
