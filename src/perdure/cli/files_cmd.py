"""``perdure runs export``: write the files of a run anew from its rows."""

from __future__ import annotations

import argparse

from perdure.cli.opening import engine_of
from perdure.cli.output import Output


def export(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure runs export``."""
    with engine_of(options) as engine:
        run_id = engine.find_run(options.run)
        files = [str(path) for path in engine.export(run_id)]
    document = {"schema": "perdure.export/v1", "run_id": run_id, "files": files}
    output.answer(document, lambda: "".join(f"{path}\n" for path in files))
    return 0
