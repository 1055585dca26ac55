"""Refuse modules of more than 400 lines and functions of more than 50."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools", "tests", "examples", "benchmarks")
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_LINES_OF = {"tasks.py": 160}


def too_long(path: Path, max_module_lines: int = MAX_MODULE_LINES) -> Iterator[str]:
    """Tell, as `file:line: message`, what in one Python file is longer than allowed.

    A function is counted from its `def` to its last line, without decorators.
    """
    text, shown = path.read_text("utf-8"), path.relative_to(ROOT)
    count = len(text.splitlines())
    if count > max_module_lines:
        yield f"{shown}:1: the module has {count} lines, {max_module_lines} allowed"
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{shown}:{node.lineno}: {node.name} has {lines} lines, {MAX_FUNCTION_LINES} allowed"


def main() -> int:
    """Check every Python file of the project; 1 if anything is too long."""
    found: list[str] = []
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    for path in paths:
        found += too_long(path)
    for name, limit in MAX_LINES_OF.items():
        found += too_long(ROOT / name, limit)
    print(*found, f"{len(paths) + len(MAX_LINES_OF)} files, {len(found)} too long", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
