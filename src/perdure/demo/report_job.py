"""Where the job of the demo is: ``examples/report``, which a built package carries beside this module."""

from __future__ import annotations

from pathlib import Path

from perdure.demo.errors import DemoError

JOB_NAME = "report.job.yaml"


def job_file() -> Path:
    """Return the job file.

    Raises:
        DemoError: this package carries none.
    """
    here = Path(__file__).resolve()
    # The first is where the wheel puts it; the second is the checkout that an editable install points to.
    for folder in (here.parent / "report_example", here.parents[3] / "examples" / "report"):
        if (folder / JOB_NAME).is_file():
            return folder / JOB_NAME
    raise DemoError(
        f"the example job is missing from this installation ({here.parent})",
        next_command="pip install 'perdure[demo]', or in a clone: python3 tasks.py demo",
    )
