"""What a trial shows, judged from the mail server's counts and from what the system said: pure rules.

The system's word alone never makes a good verdict: "finished" needs every mail in the mail server's log, and a
trial whose kill did not hit the planned moment is no trial.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

SIGKILLED = -9
SAID = ("finished", "failed", "waiting", "pending")


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Args:
        before: the program of the first life, `after` that of the second.
        hold: where the first life stands still to be killed; empty for a run without a kill.
        due_before: the mails that must have been sent when it is killed, no more and no less.
        due: the mails that must have been sent in the end, each once.
        new: the mail or read that the changed program has beside the old ones.
    """

    name: str
    title: str
    before: str
    after: str
    hold: str
    due_before: Mapping[str, int]
    due: tuple[str, ...]
    new: tuple[str, ...] = ()


MAIL = Experiment("mail", "killed between “sent” and “recorded”", "mail", "mail", "mail", {"mail": 1}, ("mail",))
CALM = Experiment("calm", "not killed", "mail", "mail", "", {}, ("mail",))
_V1 = {"announce": 1}
_DUE = ("announce", "report")
SAME = Experiment("same", "no change", "v1", "v1", "compute", _V1, _DUE)
ADDED = Experiment("added", "a step added before it", "v1", "added", "compute", _V1, _DUE, ("check",))
RENAMED = Experiment("renamed", "the step renamed", "v1", "renamed", "compute", _V1, _DUE)
MAIL_FIRST = Experiment("mail_first", "a mail added at the start", "v1", "mail_first", "compute", _V1, _DUE, ("greet",))
TESTS = {test.name: test for test in (CALM, MAIL, SAME, ADDED, RENAMED, MAIL_FIRST)}
CHANGES = (SAME, ADDED, RENAMED, MAIL_FIRST)


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen of one trial.

    Args:
        exit_code: how the first life ended; -9 is SIGKILL; None if it was not started.
        before: mails in the server's log when the first life was dead.
        after: mails there at the end; `reads` likewise.
        said: what the second life said of the job, None if it said nothing.
        detail: the system's own words.
        watched_seconds: how long the second life was watched.
        trouble: why there was no trial, if there was none.
        answer: what the last life said after a person's answer, where the system asked one.
    """

    exit_code: int | None = None
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    reads: Mapping[str, int] = field(default_factory=dict)
    said: str | None = None
    detail: str = ""
    watched_seconds: float = 0.0
    trouble: str = ""
    answer: "Facts | None" = None


class Word(StrEnum):
    """The verdicts."""

    FINISHED = "finished"
    REPEATED = "finished, but sent a mail again"
    DROPPED = "finished, but silently dropped work"
    STUCK = "stuck"
    FAILED = "failed"
    WAITING = "waits for a person"
    NOTHING = "not measured"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word and what belongs to it."""

    word: Word
    note: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.note})" if self.note else str(self.word)


def _spoilt(test: Experiment, facts: Facts) -> str:
    """Return why this was not the planned experiment, or nothing."""
    if facts.trouble:
        return facts.trouble
    if test.hold and facts.exit_code != SIGKILLED:
        return f"the first life ended with {facts.exit_code}, not by SIGKILL"
    if test.hold and +Counter(facts.before) != Counter(test.due_before):
        return f"when it was killed the mails were {dict(facts.before)}"
    if facts.said is not None and facts.said not in SAID:
        return f"it said {facts.said!r}"
    return ""


def _strange(test: Experiment, facts: Facts) -> tuple[list[str], list[str], list[str]]:
    """Return the mails that went out more than once, those that are missing, and the new steps that were not run."""
    repeated = [f"{name}: {times} times" for name, times in sorted(facts.after.items()) if times > 1]
    missing = [name for name in test.due if not facts.after.get(name)]
    not_run = [name for name in test.new if not facts.after.get(name) and not facts.reads.get(name)]
    return repeated, missing, not_run


def judge(test: Experiment, facts: Facts) -> Verdict:
    """Return the verdict on one trial."""
    spoilt = _spoilt(test, facts)
    if spoilt:
        return Verdict(Word.NOTHING, spoilt)
    repeated, missing, not_run = _strange(test, facts)
    again = [", ".join(repeated)] if repeated else []
    if facts.said != "finished":
        words = {"failed": Word.FAILED, "waiting": Word.WAITING}
        return Verdict(words.get(facts.said or "", Word.STUCK), *again)
    notes = [*([f"never sent: {', '.join(missing)}"] if missing else []), *again]
    notes += [f"new step not run: {', '.join(not_run)}"] if not_run else []
    word = Word.DROPPED if missing else Word.REPEATED if repeated else Word.FINISHED
    return Verdict(word, "; ".join(notes))


def judge_answer(test: Experiment, facts: Facts) -> Verdict | None:
    """Return the verdict on the life after a person's answer, None where nobody was asked."""
    return None if facts.answer is None else judge(test, facts.answer)


def summed(test: Experiment, trials: Sequence[Facts], wanted: int) -> str:
    """Put the verdicts of all trials into one cell; a trial that is missing is said to be missing."""
    counts = Counter(str(judge(test, facts)) for facts in trials)
    if len(trials) < wanted:
        counts[f"{Word.NOTHING} (no trial)"] += wanted - len(trials)
    return "; ".join(f"{text}, {times} of {wanted}" for text, times in counts.most_common())


def mails_sent(trials: Sequence[Facts], name: str) -> str:
    """Tell how many mails each trial sent, as `2, 2, 2`; `?` where there was no trial of it."""
    sent = ["?" if _spoilt(MAIL, facts) else str(facts.after.get(name, 0)) for facts in trials]
    return ", ".join(sent) or "?"
