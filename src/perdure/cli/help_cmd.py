"""``perdure help``: what an error code means, offline."""

from __future__ import annotations

import argparse
import difflib
import io
import re
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources

from perdure.cli.output import Output
from perdure.cli.parser import NOUNS, cut
from perdure.model.errors import NotFound

PARTS = ("What happened", "Why", "What is safe", "What to do", "Example")
CODE = re.compile(r"(?:PERDURE-?)?(\d{3})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Entry:
    """One error code: a sentence or two for each of the questions that it raises."""

    code: str
    title: str
    happened: str
    why: str
    safe: str
    do: str
    example: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A page that belongs to no single code."""

    name: str
    title: str
    text: str


def _sections(file: str) -> list[tuple[str, str, str]]:
    text = resources.files("perdure.cli").joinpath("catalogue", file).read_text(encoding="utf-8")
    found = re.split(r"^## (\S+) (.+)\n", text, flags=re.MULTILINE)[1:]
    return [(name, title, body.strip()) for name, title, body in zip(found[::3], found[1::3], found[2::3], strict=True)]


@cache
def entries() -> dict[str, Entry]:
    """Return what is told of each error code."""
    return {code: Entry(code, title, *_parts(body)) for code, title, body in _sections("errors.md")}


def _parts(body: str) -> list[str]:
    told = dict(line.split(": ", 1) for line in body.splitlines())
    return [told[part] for part in PARTS]


@cache
def topics() -> dict[str, Topic]:
    """Return the pages that belong to no single code."""
    return {name: Topic(name, title, body) for name, title, body in _sections("topics.md")}


def help_on(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure help``."""
    if options.subject is None:
        return _list(output)
    if options.subject in NOUNS and (options.verb is None or NOUNS[options.subject]):
        return _of_command(options, output)
    if options.verb is not None:
        raise _nothing(f"{options.subject} {options.verb}")
    code = CODE.fullmatch(options.subject)
    entry = entries().get(f"PERDURE-{code[1]}") if code else None
    topic = topics().get(options.subject)
    if entry is not None:
        output.answer({"schema": "perdure.help/v1", **asdict(entry)}, lambda: told(entry))
    elif topic is not None:
        document = {"schema": "perdure.help_topic/v1", **asdict(topic)}
        output.answer(document, lambda: f"{topic.title}\n\n{topic.text}\n")
    else:
        raise _nothing(options.subject)
    return 0


def _of_command(options: argparse.Namespace, output: Output) -> int:
    """Print what ``--help`` prints of a command."""
    from perdure.cli.main import main

    names = [name for name in (options.subject, options.verb) if name is not None]
    cut(names)  # tells of a verb that does not exist
    said = io.StringIO()
    with redirect_stdout(said):
        code = main([*names, "--help"])
    document = {"schema": "perdure.help_topic/v1", "name": " ".join(names), "title": "A command", "text": ""}
    if code == 0:
        output.answer({**document, "text": said.getvalue()}, said.getvalue)
    return code


def _list(output: Output) -> int:
    codes = [{"code": entry.code, "title": entry.title} for entry in entries().values()]
    pages = [{"name": topic.name, "title": topic.title} for topic in topics().values()]
    commands = [f"{noun} {verb}".rstrip() for noun, verbs in NOUNS.items() for verb in verbs or ("",)]
    document = {"schema": "perdure.help_index/v1", "codes": codes, "topics": pages, "commands": commands}

    def text() -> str:
        rows = [*((page["name"], page["title"]) for page in pages), *((one["code"], one["title"]) for one in codes)]
        return output.table(("HELP ON", ""), rows) + f"and on the commands: {', '.join(NOUNS)}\n"

    output.answer(document, text)
    return 0


def told(entry: Entry) -> str:
    """Return an entry as it is printed."""
    said = (entry.happened, entry.why, entry.safe, entry.do)
    lines = [f"{entry.code}: {entry.title}", ""]
    lines += [f"{part}: {text}" for part, text in zip(PARTS, said, strict=False)]
    return "\n".join([*lines, "", f"  {entry.example}", ""])


def _nothing(subject: str) -> NotFound:
    near = difflib.get_close_matches(subject, [*topics(), *entries(), *NOUNS], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return NotFound(f"there is no help on {subject!r}{hint}", next_command="perdure help")
