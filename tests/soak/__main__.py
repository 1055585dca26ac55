"""Hunt for a schedule that repeats an effect, loses one, or leaves a run stuck: `python3 tasks.py soak`.

The judge is the log of an independent provider. Every failure is told at once with a label that plays it again:
`python3 tasks.py soak --replay LABEL`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from pathlib import Path

from tests.crash import planting
from tests.crash.conftest import MEMORY
from tests.crash.support import planted
from tests.soak.figures import MUST_BE_ZERO, surroundings
from tests.soak.hunt import Hunt, story_of
from tests.soak.lives import strace
from tests.soak.player import Player
from tests.soak.sections import SECTIONS, Limits, schedule_of
from tests.soak.stand import Stand

SEED = 1
INTERRUPTED = 130


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    sections = "\n".join(f"  {name:8} {section.shows}" for name, section in SECTIONS.items())
    parser = argparse.ArgumentParser(
        prog="tasks.py soak", description=__doc__, epilog=f"sections:\n{sections}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--schedules", type=int, default=10_000, metavar="N", help="random schedules (10000)")
    parser.add_argument("--seed", type=int, default=SEED, metavar="S", help=f"of the random ones ({SEED})")
    parser.add_argument("--jobs", type=int, default=2, metavar="J", help="side by side (2)")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="begin nothing new after so many; a section has its share"
    )
    parser.add_argument("--stride", type=int, default=1, metavar="K", help="of numbered points only each K-th (1)")
    parser.add_argument(
        "--only", choices=list(SECTIONS), action="append", help="this section; may be given several times"
    )
    parser.add_argument(
        "--replay", metavar="LABEL", help="play one schedule again and tell its story: SEED:K or a label"
    )
    parser.add_argument(
        "--times", type=int, default=1, metavar="T", help="with --replay: so many times (timing differs)"
    )
    parser.add_argument(
        "--plant", metavar="NAME", help="break a rule on purpose (tests/crash/planting.py): is it seen?"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, one flat object")
    return parser.parse_args(arguments)


def replay(folder: Path, options: argparse.Namespace) -> int:
    """Play one schedule again, and tell everything."""
    schedule, failed, times = schedule_of(options.replay), 0, options.times
    with Stand(folder / "replay") as stand:
        for _ in range(times):
            player = Player(stand, schedule, planted(options.plant))
            played = player.play()
            failed += bool(played.problems)
            print(*story_of(player, played), sep="\n", flush=True)
    print(f"{failed} of {times} failed")
    return int(failed > 0)


def soak(options: argparse.Namespace, folder: Path) -> int:
    """Play everything and print the figures."""
    kept = Path(tempfile.gettempdir()) / f"perdure-soak-{os.getpid()}"
    hunt = Hunt(folder, kept, environ=planted(options.plant))
    whole = math.inf if options.minutes is None else 60 * options.minutes
    limits = Limits(options.seed, options.schedules, options.stride)
    for name in options.only or SECTIONS:
        if name == "strace" and strace() is None:
            print("strace is not installed: no kills at syscalls", file=sys.stderr)
        share = 1.0 if options.only else SECTIONS[name].share
        hunt.take(name, SECTIONS[name].walks(limits), options.jobs, min(whole * share, whole - hunt.seconds))
        if hunt.interrupted:
            break
    figures = hunt.figures
    flat = {**figures.flat(hunt.seconds), "seed": options.seed, "jobs": options.jobs, "stride": options.stride,
            "cores": os.cpu_count(), "failed_labels": " ".join(figures.failed), **surroundings()}  # fmt: skip
    for name, value in flat.items():
        print(f"{name:24} {value}")
    print(f"soak: {figures.line(hunt.seconds)}")
    if options.json is not None:
        options.json.write_text(json.dumps(flat, indent=1) + "\n", "utf-8")
    if figures.broken:
        told = ", ".join(f"{figures.sums[name]} {name}" for name in MUST_BE_ZERO)
        print(f"FAILED: {told}; the ledgers are kept in {kept}", file=sys.stderr)
    return INTERRUPTED if hunt.interrupted else int(figures.broken)


def main(arguments: list[str]) -> int:
    """Run the soak."""
    options = parse(arguments)
    if options.plant and (unknown := set(options.plant.split(",")) - set(planting.load())):
        print(f"no such planted bug: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="perdure-soak-", dir=place) as folder:
        if options.replay:
            try:
                return replay(Path(folder), options)
            except ValueError as error:
                print(error, file=sys.stderr)
                return 2
        return soak(options, Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
