"""The recorded results, and the tables that the command prints and the README quotes: made from the facts only."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.compare.verdicts import (
    CALM,
    CHANGES,
    MAIL,
    Experiment,
    Facts,
    Word,
    judge,
    judge_answer,
    mails_sent,
    summed,
)

RESULTS = Path(__file__).resolve().parent / "results.json"
SCHEMA = "perdure.compare/v1"
_WORDS_LENGTH = 150


@dataclass(frozen=True, slots=True)
class Row:
    """One system and the facts of its trials, by the name of the test.

    Args:
        tests: the names of the tests that were meant to be made with it.
        could_not_run: why it has no trials at all.
    """

    key: str
    title: str
    versions: Mapping[str, str]
    tests: tuple[str, ...]
    trials: Mapping[str, Sequence[Facts]] = field(default_factory=dict)
    could_not_run: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """A whole comparison.

    Args:
        recorded: the day, as YYYY-MM-DD.
        trials: how many trials of each test with a kill were wanted.
    """

    recorded: str
    machine: str
    trials: int
    watch_seconds: float
    rows: tuple[Row, ...]


def encode(results: Results) -> str:
    """Return the results as a JSON document."""
    return json.dumps({"schema": SCHEMA, **asdict(results)}, indent=1, ensure_ascii=False) + "\n"


def decode(text: str) -> Results:
    """Read a JSON document back.

    Raises:
        ValueError: it is not such a document.
    """
    document = json.loads(text)
    if document.pop("schema", None) != SCHEMA:
        raise ValueError(f"not a document of {SCHEMA}")
    document["rows"] = tuple(_row(row) for row in document["rows"])
    return Results(**document)


def recorded() -> Results:
    """Read the results that `compare --record` wrote last."""
    return decode(RESULTS.read_text("utf-8"))


def _row(row: dict[str, Any]) -> Row:
    trials = {name: tuple(_facts(facts) for facts in listed) for name, listed in row["trials"].items()}
    return Row(**{**row, "tests": tuple(row["tests"]), "trials": trials})


def _facts(told: dict[str, Any]) -> Facts:
    answer = told["answer"]
    return Facts(**{**told, "answer": None if answer is None else _facts(answer)})


def markdown(results: Results) -> str:
    """Return what the command prints."""
    return f"{tables(results)}\n\nIn their own words, and how long they were watched:\n\n{own_words(results)}\n"


def tables(results: Results) -> str:
    """Return both tables with what one must know to read them."""
    return "\n\n".join([_head(results), _mail_table(results), _calm(results), _change_table(results)])


def _head(results: Results) -> str:
    day = date.fromisoformat(results.recorded)
    return (
        f"Recorded on {day.day} {day:%B %Y} ({results.machine}), trials of each test: {results.trials}; a resumed job "
        f"was watched until it ended, or for {results.watch_seconds:g} s. Mails are those the SMTP server accepted."
    )


def _mail_table(results: Results) -> str:
    lines = [["killed between “sent” and “recorded”", "version", "mails, each trial", "then the job"]]
    for row in _rows_of(results, MAIL):
        version = ", ".join(f"{name} {number}" for name, number in row.versions.items()) or "?"
        if row.could_not_run:
            lines.append([row.title, version, "?", _could_not(row)])
            continue
        trials = row.trials.get(MAIL.name, ())
        lines.append([row.title, version, mails_sent(trials, "mail"), _cell(MAIL, trials, results.trials)])
    return _table(lines)


def _cell(test: Experiment, trials: Sequence[Facts], wanted: int) -> str:
    """Return the verdicts on all trials of a test, and what became of the job after a person's answer."""
    text = summed(test, trials, wanted)
    answers = [verdict for facts in trials if (verdict := judge_answer(test, facts))]
    if not answers:
        return text
    counts = Counter(str(verdict) for verdict in answers)
    told = "; ".join(f"{word}, {times} of {len(answers)}" for word, times in counts.most_common())
    return f"{text}; after the answer: {told}"


def _calm(results: Results) -> str:
    """Say how the same jobs ended when nobody killed them: without that the counts mean nothing."""
    rows = [row for row in _rows_of(results, CALM) if not row.could_not_run]
    strange = [f"{row.title}: {_cell(CALM, row.trials.get(CALM.name, ()), 1)}" for row in rows if not _was_calm(row)]
    if strange:
        return f"Control, the same job not killed, which should send 1 mail and finish, did not: {'; '.join(strange)}."
    return f"Control: not killed, each of these {len(rows)} sent 1 mail and finished."


def _was_calm(row: Row) -> bool:
    trials = row.trials.get(CALM.name, ())
    return bool(trials) and all(judge(CALM, facts).word is Word.FINISHED for facts in trials)


def _change_table(results: Results) -> str:
    lines = [["killed in a harmless step, then resumed with", *(test.title for test in CHANGES)]]
    for row in _rows_of(results, *CHANGES):
        if row.could_not_run:
            lines.append([row.title, _could_not(row), *[""] * (len(CHANGES) - 1)])
        else:
            cells = [_cell(test, row.trials.get(test.name, ()), results.trials) for test in CHANGES]
            lines.append([row.title, *cells])
    return _table(lines)


def own_words(results: Results) -> str:
    """Quote what each system said where it did not finish, or dropped work: its first trial of each test."""
    lines: list[str] = []
    for row in results.rows:
        found: dict[str, list[str]] = {}
        for test in (MAIL, *CHANGES):
            for facts in row.trials.get(test.name, ())[:1]:
                if judge(test, facts).word not in (Word.FINISHED, Word.REPEATED):
                    where = f"{test.title}, {facts.watched_seconds:.0f} s"
                    found.setdefault(_short(facts.detail), []).append(where)
        lines += [f"- {row.title} ({'; '.join(where)}): `{words}`" for words, where in found.items()]
    return "\n".join(lines)


def _short(detail: str) -> str:
    words = " ".join(detail.replace("`", "'").split()) or "nothing"
    return words if len(words) <= _WORDS_LENGTH else f"{words[: _WORDS_LENGTH - 1]}…"


def _rows_of(results: Results, *tests: Experiment) -> Iterator[Row]:
    names = {test.name for test in tests}
    return (row for row in results.rows if names & set(row.tests))


def _could_not(row: Row) -> str:
    return f"could not run: {' '.join(row.could_not_run.split())}"


def _table(lines: Sequence[Sequence[str]]) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    shown = ["| " + " | ".join(line) + " |" for line in escaped]
    return "\n".join([shown[0], "|" + "---|" * len(lines[0]), *shown[1:]])
