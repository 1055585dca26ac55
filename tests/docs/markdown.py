"""Read a page as what it is to its reader: files to write, commands to type, answers to see.

A fence's first word is its language. ``file=NAME`` writes the block into the page's folder, ``runnable`` runs it there:
Python must exit with 0; of a console block each ``$ `` line is run, the lines below it are what it must print (``…``
stands for anything) and ``# exits N`` behind the command is its exit code; each SQL query must find a row.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SECONDS = 60
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_EXIT = re.compile(r"\s+# exits (\d+)$")
_LANGUAGES = frozenset({"", "console", "json", "mermaid", "python", "sql", "text", "yaml"})


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    language: str
    body: str
    line: int
    file: str | None
    runnable: bool


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [_block(found, 1 + text.count("\n", 0, found.start())) for found in _FENCE.finditer(text)]


def _block(found: re.Match[str], line: int) -> Block:
    words = [*found["info"].split(), ""]
    language, *more = words
    file = next((word.removeprefix("file=") for word in more if word.startswith("file=")), None)
    strange = {word for word in more if word and word != "runnable" and not word.startswith("file=")}
    if language not in _LANGUAGES or strange:
        raise AssertionError(f"line {line}: what is ```{found['info']}?")
    return Block(language, found["body"], line, file, "runnable" in more)


class Reader:
    """Does in a folder of its own what a page says, block by block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bin_folder = str(Path(sys.executable).parent)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PERDURE_")}
        self._environ = {**kept, "PATH": f"{bin_folder}{os.pathsep}{kept.get('PATH', os.defpath)}", "NO_COLOR": "1"}

    def follow(self, block: Block) -> None:
        """Write or run one block and demand what it promises."""
        if block.file is not None:
            (self.folder / block.file).write_text(block.body, "utf-8")
        if not block.runnable:
            return
        if block.language == "console":
            self._type(block)
        elif block.language == "sql":
            self._query(block)
        else:
            assert block.language == "python", f"line {block.line}: {block.language} cannot be run"
            self._run_python(block)

    def _run_python(self, block: Block) -> None:
        name = block.file or f"line_{block.line}.py"
        (self.folder / name).write_text(block.body, "utf-8")
        code, printed = self._shell(f"python {name}")
        assert code == 0, f"line {block.line}: exit code {code}\n{printed}"

    def _type(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
            command, _, promised = part.partition("\n")
            told = _EXIT.search(command)
            code, printed = self._shell(_EXIT.sub("", command))
            wanted = int(told[1]) if told else 0
            assert code == wanted, f"line {block.line}: $ {command}\nexit code {code}, not {wanted}\n{printed}"
            form = "".join(".*?" if piece == "…" else re.escape(piece) for piece in re.split("(…)", promised.strip()))
            assert re.fullmatch(form, printed.strip(), re.DOTALL), (
                f"line {block.line}: $ {command}\n--- the page says\n{promised}\n--- it printed\n{printed}"
            )

    def _query(self, block: Block) -> None:
        ledger = f"file:{self.folder / '.perdure/runtime_state.db'}?mode=ro"
        with closing(sqlite3.connect(ledger, uri=True)) as database:
            for query in filter(str.strip, block.body.split(";")):
                assert database.execute(query).fetchall(), f"line {block.line}: no row: {query}"

    def _shell(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout
