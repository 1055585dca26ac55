"""What a job says it is for is told again to whoever goes on with it (R034)."""

from __future__ import annotations

from pathlib import Path

import perdure

PROGRAM = """
def main(run):
    with open(run.inputs["told"], "a") as told:
        told.write(f"{run.resume_packet}\\n")
    if run.attempt == 1:
        raise RuntimeError("the first life ends here")
    return "done"
"""


def test_the_objective_of_a_job_stands_in_the_packet_of_the_next_life(tmp_path: Path) -> None:
    told = tmp_path / "told.txt"
    (tmp_path / "work.py").write_text(PROGRAM)
    job = tmp_path / "work.job.yaml"
    job.write_text(
        'name: work\nobjective: Count the lighthouses of Brittany\nagent: {python: "work.py:main"}\n'
        f"inputs: {{told: {told}}}\n"
    )
    with perdure.open(f"sqlite:///{tmp_path}/state.db") as engine:
        assert engine.run(str(job), run_id="work").status == "failed"
        assert "lighthouses" not in told.read_text()
        assert engine.resume("work").result == "done"
    assert "objective: `Count the lighthouses of Brittany`" in told.read_text()
