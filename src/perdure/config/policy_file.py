"""The shipped base policy and the operator's overlays as one policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perdure.config.base_policy import base_policy
from perdure.model.policy import Policy


def load_policy(paths: Sequence[Path], *, base: bool = True) -> Policy:
    """Read policy files in order; a later one wins a tie.

    Args:
        paths: the overlays; a missing one is an error (R089).
        base: whether the shipped base policy comes first.

    Raises:
        PolicyError: any file has an error; all errors of all files, as ``file:line:col: code text``.
    """
    shipped = base_policy() if base else Policy()
    if not paths:
        return shipped
    from perdure.config.policy_schema import read_overlays  # pydantic and ruamel: only when there is a file

    return read_overlays(paths, shipped)
