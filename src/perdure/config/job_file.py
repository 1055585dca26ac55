"""A job from a file or from a bare ``report.py:main``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.config.job import JobFile
from perdure.model.errors import SpecError

__all__ = ["JobFile", "checked_budgets", "job_from_target", "load_job", "open_job"]


def load_job(path: Path) -> JobFile:
    """Read and check a job file.

    Args:
        path: YAML 1.2, or JSON if the name ends with ``.json``.

    Raises:
        SpecError: with every problem of the file, each as ``file:line:col: text``.
    """
    from perdure.config.job_schema import read_job  # pydantic and ruamel: only when there is a file

    return read_job(path)


def open_job(text: str) -> JobFile:
    """Return the job that ``perdure run`` was given: a job file, or ``report.py:main``.

    Raises:
        SpecError: it is neither, or has errors.
    """
    if not text.strip():
        raise SpecError(["the name of the job is empty"], next_command="perdure run JOB   # FILE.yaml or FILE.py:main")
    head, _, function = text.rpartition(":")
    if head.endswith(".py") and "/" not in function:
        return job_from_target(text)
    if text.endswith(".py"):
        raise SpecError([f"{text}: which function? Write {text}:main"])
    return load_job(Path(text))


def job_from_target(text: str) -> JobFile:
    """Return the job of a bare ``report.py:main``: no limits, no tools, no policies of its own.

    Raises:
        SpecError: it is no such target, or the file does not exist.
    """
    head, _, function = text.rpartition(":")
    path = Path(head)
    if not head.endswith(".py") or not path.stem.isidentifier():
        raise SpecError([f"{text}: is not FILE.py:function"])
    if not function.isidentifier():
        raise SpecError([f"{text}: {function!r} is no function name"])
    if "\0" in head or not path.is_file():
        raise SpecError([f"{head}: no such file"])
    return JobFile(name=path.stem, agent_kind="python", agent_target=f"{path.name}:{function}", path=path)


def checked_budgets(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return budgets that stand in no file, as a job file would have them.

    Raises:
        SpecError: what is wrong with them, all of it.
    """
    from perdure.config.job_schema import budgets_of  # pydantic: only where there are any

    return budgets_of(given)
