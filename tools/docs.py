"""Write the generated blocks of the pages anew, or with ``--check`` say which of them are out of date.

A block stands between ``<!-- generated: NAME -->`` and ``<!-- end of generated -->``; what is between the two lines
comes from the code, so that a page cannot tell something else than the program does.
"""

import argparse
import re
import sqlite3
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.compare import report as comparison
from perdure.cli import help_cmd
from perdure.cli import parser as command_line
from perdure.core.transitions import CALL_TRANSITIONS, RUN_TRANSITIONS
from perdure.demo import command as demo_command
from perdure.model import errors
from perdure.model.run import RunStatus
from perdure.model.toolcall import CallStatus
from perdure.runtime.crashpoints import KNOBS, PREFIX
from tools import docs_evidence, docs_settings

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<head><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<tail><!-- end of generated -->)", re.DOTALL
)
ONE_OF = " | "


def pages(root: Path) -> list[Path]:
    """Return every page of a checkout, whether it holds generated blocks or not."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


# --- the command line ----------------------------------------------------------------------------------------


def commands() -> str:
    """Describe every command and its arguments."""
    return "\n".join(_command("perdure", command_line.build(), inherited=frozenset()))


def _command(name: str, parser: argparse.ArgumentParser, inherited: frozenset[str]) -> Iterator[str]:
    under = _subcommands(parser)
    own = [action for action in _arguments(parser) if action.dest not in inherited]
    if name == "perdure":
        yield from ["### Everywhere", "", *_explained(own), ""]
        inherited = frozenset(action.dest for action in own)
    elif not under:
        yield from [f"### {name}", "", f"{parser.description}", ""]
        yield from ["```text", _usage(name, own, parser), "```", ""]
        explained = list(_explained(own))
        yield from [*explained, ""] if explained else []
    for word, sub in under.items():
        if sub.prog == "perdure demo":
            yield from _command("perdure demo", demo_parser(), frozenset())
        else:
            yield from _command(f"{name} {word}", sub, inherited)


def demo_parser() -> argparse.ArgumentParser:
    """Return the parser of the demo, which has flags of its own."""
    made: argparse.ArgumentParser = demo_command._parser()
    return made


def _subcommands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    left_out = (argparse._SubParsersAction, argparse._HelpAction)
    return [action for action in parser._actions if not isinstance(action, left_out)]


def _usage(name: str, own: list[argparse.Action], parser: argparse.ArgumentParser) -> str:
    words, done = [name], set[str]()
    for action in own:
        group = next((g for g in parser._mutually_exclusive_groups if action in g._group_actions), None)
        if group is None:
            words.append(_placed(action))
        elif action.option_strings[0] not in done:
            flags = [_spelled(one, one.option_strings[0]) for one in group._group_actions]
            words.append(f"({ONE_OF.join(flags)})")
            done.update(one.option_strings[0] for one in group._group_actions)
    return " ".join(words)


def _placed(action: argparse.Action) -> str:
    text = _spelled(action, action.option_strings[0] if action.option_strings else "")
    again = "…" if isinstance(action, argparse._AppendAction) or action.nargs == "+" else ""
    needed = action.required and action.nargs != "?"
    return f"{text}{again}" if needed else f"[{text}]{again}"


def _spelled(action: argparse.Action, flag: str) -> str:
    """Return a flag with the name of its value, or the name of a positional argument."""
    if action.nargs == 0:
        return flag
    listed = [str(choice) for choice in action.choices or ()]
    value = str(action.metavar or ("|".join(listed) if listed else action.dest.upper()))
    if not flag:
        return value
    return f"{flag} [{value}]" if action.nargs == "?" else f"{flag} {value}"


def _explained(own: list[argparse.Action]) -> Iterator[str]:
    for action in own:
        spelled = [f"`{_spelled(action, flag)}`" for flag in action.option_strings or [""]]
        text = (action.help or "").replace("%%", "%").replace("<", "&lt;")
        yield f"- {', '.join(spelled)}" + (f": {text}" if text else "")


# --- tables --------------------------------------------------------------------------------------------------


def error_codes() -> str:
    """List every error of the library with its code and the exit code that the command line gives it."""
    lines = ["| code | error | exit code | means |", "|---|---|---|---|"]
    found = [item for item in vars(errors).values() if isinstance(item, type)]
    ours = [item for item in found if issubclass(item, errors.PerdureError) and item.__module__ == errors.__name__]
    for item in sorted(ours, key=lambda one: one.code):
        summary = (item.__doc__ or "").strip().splitlines()[0].replace("``", "`")
        lines.append(f"| {item.code} | `{item.__name__}` | {item.exit_code} | {summary} |")
    return "\n".join(lines)


def error_catalogue() -> str:
    """Show what `perdure help` tells of each error code."""
    lines: list[str] = []
    for entry in help_cmd.entries().values():
        told = (entry.happened, entry.why, entry.safe, entry.do)
        lines += [f"### {entry.code}", "", f"*{entry.title}.*", ""]
        lines += [f"- {part}: {text}" for part, text in zip(help_cmd.PARTS, told, strict=False)]
        lines += ["", f"```console\n{entry.example}\n```", ""]
    return "\n".join(lines)


def crash_knobs() -> str:
    """List the crash knobs and the form of their values."""
    rows = [f"| `{PREFIX}{name}` | {form[1]} |" for name, form in KNOBS.items()]
    return "\n".join(["| variable | value |", "|---|---|", *rows])


def tables() -> str:
    """List every table and view of a new ledger with its columns."""
    lines = ["| name | kind | columns |", "|---|---|---|"]
    query = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
    with closing(sqlite3.connect(":memory:")) as database:
        for migration in sorted((ROOT / "src/perdure/store/sqlite/migrations").glob("*.sql")):
            database.executescript(migration.read_text("utf-8"))
        for name, kind in sorted(database.execute(query), key=lambda row: (row[1], row[0])):
            columns = [f"`{row[1]}`" for row in database.execute(f"PRAGMA table_info({name})")]
            lines.append(f"| `{name}` | {kind} | {' '.join(columns)} |")
    return "\n".join(lines)


def layers() -> str:
    """List the layers as the import check knows them, the highest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = next(c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    lines = ["| layer, highest first | holds |", "|---|---|"]
    for names in contract["layers"]:
        found = [name.strip(" ()") for name in names.split("|")]
        present = [name for name in found if _first_sentence(name)]
        told = "; ".join(_first_sentence(name) for name in present)
        if present:
            lines.append(f"| {' '.join(f'`{name}`' for name in present)} | {told} |")
    return "\n".join(lines)


def _first_sentence(name: str) -> str:
    folder = ROOT / "src/perdure" / name
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    if not path.is_file():
        return ""
    text = path.read_text("utf-8").partition('"""')[2].partition('"""')[0]
    return " ".join(text.split("\n\n")[0].split()).rstrip(".").replace("``", "`")


def redaction_rules() -> str:
    """Return the forms of secrets that are looked for, as the code has them."""
    from perdure.core.redact import table

    return "\n".join(["| kind | what |", "|---|---|", *(f"| `{kind}` | {what} |" for kind, what in table())])


def design_pages() -> str:
    """List the pages of the choices that were made, by their headings."""
    pages_ = sorted((ROOT / "docs/design").glob("[0-9]*.md"))
    headings = [(page.name, page.read_text("utf-8").partition("\n")[0].removeprefix("# ")) for page in pages_]
    return "\n".join(f"- [{heading}]({name})" for name, heading in headings)


# --- state machines ------------------------------------------------------------------------------------------


def call_states() -> str:
    """Draw the states of a call."""
    settled = [status for status in CallStatus if status.settled]
    return _diagram(CALL_TRANSITIONS, CallStatus.PREPARED, settled)


def run_states() -> str:
    """Draw the states of a run."""
    ended = [status for status in RunStatus if status.ended]
    return _diagram(RUN_TRANSITIONS, RunStatus.QUEUED, ended)


def _diagram(table: Mapping[tuple[Any, Any], StrEnum], first: StrEnum, last: list[Any]) -> str:
    """Return a mermaid diagram; GitHub and most editors draw it, and it reads as text."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {status} --> {after}: {event}" for (status, event), after in table.items()]
    lines += [f"    {status} --> [*]" for status in last]
    return "\n".join([*lines, "```"])


# --- the recorded comparison -----------------------------------------------------------------------------------


def compared() -> str:
    """Show the recorded results of the comparison with other systems."""
    return comparison.tables(comparison.recorded())


def compared_words() -> str:
    """Quote what the systems said of jobs that did not finish."""
    return comparison.own_words(comparison.recorded())


# --- pages ---------------------------------------------------------------------------------------------------

GENERATORS: dict[str, Callable[[], str]] = {
    "call-states": call_states,
    "commands": commands,
    "compared": compared,
    "compared-words": compared_words,
    "crash-knobs": crash_knobs,
    "design-pages": design_pages,
    "error-catalogue": error_catalogue,
    "error-codes": error_codes,
    "layers": layers,
    "redaction-rules": redaction_rules,
    "run-states": run_states,
    "tables": tables,
    **docs_evidence.GENERATORS,
    **docs_settings.GENERATORS,
}


def renewed(text: str) -> str:
    """Return a page with every generated block made anew.

    Raises:
        KeyError: a block names no generator.
    """
    return BLOCK.sub(lambda found: f"{found['head']}{GENERATORS[found['name']]().strip()}\n{found['tail']}", text)


def main(arguments: list[str] | None = None) -> int:
    """Write or check all pages; with ``--check`` 1 if one is out of date."""
    parser = argparse.ArgumentParser(prog="python3 tasks.py docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout whose pages are meant (this one)")
    told = parser.parse_args(arguments)
    count, stale = 0, list[Path]()
    for page in pages(told.root):
        text = page.read_text("utf-8")
        count += len(BLOCK.findall(text))
        new = renewed(text)
        if new != text:
            stale.append(page.relative_to(told.root))
            if not told.check:
                page.write_text(new, "utf-8")
    did = "out of date" if told.check else "written"
    hint = "; run: python3 tasks.py docs" if told.check else ""
    print(*(f"{page}: {did}{hint}" for page in stale), f"{count} generated blocks, {len(stale)} pages {did}", sep="\n")
    return int(told.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
