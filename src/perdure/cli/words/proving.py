"""The commands that show a job survive."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands, positive

NOUNS: dict[str, tuple[str, ...]] = {"demo": (), "smoke": (), "crashtest": ()}


def add_to(commands: Commands) -> None:
    """Add them."""
    commands.add("demo", "watch a real job being killed three times and finish anyway")
    smoke = commands.add(
        "smoke", "kill a small run at its worst moments, resume it, and count outside", ("smoke_cmd", "smoke")
    )
    smoke.add_argument("--folder", metavar="DIR", help="an empty folder for everything; else a temporary one")
    _crashtest(commands)


def _crashtest(commands: Commands) -> None:
    test = commands.add(
        "crashtest", "kill your own job at every crash point, and count outside", ("crashtest_cmd", "crashtest")
    )
    add = test.add_argument
    add("job", metavar="JOB", help="a job file (YAML or JSON), or FILE.py:function")
    add("-i", "--input", metavar="KEY=VALUE", action="append", default=[], help="one input; may be JSON")
    add("--points", metavar="LIST", help="only these crash points, such as 1-20,33")
    add("--worst", action="store_true", help="only the worst moment of each tool: result received, receipt not stored")
    add("--max-points", metavar="N", type=positive, help="at most N crash points")
    add("--jobs", metavar="N", type=positive, default=1, help="so many runs side by side (1)")
    add("--returns", metavar="TOOL=JSON", action="append", default=[], help="what the stand-in for a tool returns; "
        "memo:NAME for a memo, '*' for every tool")  # fmt: skip
    add("--from-run", metavar="RUN", help="stand-ins return what the tools returned in this real run")
    add("--stub-reads", action="store_true", help="reading tools are not entered either, nor local ones with a value")
    add("--live", action="store_true", help="enter the real tools; needs --max-points, --points or --worst")
    add("--html", metavar="FILE", help="write the report as a page")
    add("--folder", metavar="DIR", help="an empty folder for everything, kept; else a temporary one")
    add("--life-seconds", metavar="N", type=positive, default=60, help="a life that lasts longer is stuck (60)")
