"""Random programs, killed up to three times at random points and with replies lost at random: counts stay exact.

The seeds are fixed; a longer hunt is `CRASH_TREES=2000 pytest tests/crash/test_random_trees.py --timeout 0`.
"""

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.crash.loop import SIDE_BY_SIDE, Bench, Passage, Program
from tests.crash.support import AT_POINT

TOOLS = ["keyed_scoped", "keyed_open", "probed_scoped", "probed_open", "asked_scoped", "asked_open"]
TREES = int(os.environ.get("CRASH_TREES", "40"))
FIRST_POINT_OF_MAIN = 14
POINTS_A_CALL = 6
Tree = list[Any]


class Grower:
    """Grows one tree from one seed, and counts the calls in it. Few names make many equal calls, also side by side."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        names = [f"n{k}" for k in range(self.random.choice([1, 2, 4, 8]))]
        self._tools = {name: self.random.choice(TOOLS) for name in names}
        self._memos = 0

    def tree(self, depth: int) -> Tree:
        """A node with at most `depth` levels under it."""
        if depth == 0:
            return self._call()
        kinds = ["call", "call", "sequence", "gather", "group", "step", "memo", "thread"]
        kind = self.random.choice(kinds)
        if kind == "call":
            return self._call()
        if kind == "thread":
            return [kind, *(self._call() for _ in range(self.random.randint(1, 3)))]
        if kind in ("step", "memo"):
            self._memos += 1
            return [kind, f"m{self._memos}" if kind == "memo" else "s", self.tree(depth - 1)]
        return [kind, *(self.tree(depth - 1) for _ in range(self.random.randint(2, 3)))]

    def _call(self) -> Tree:
        name = self.random.choice(list(self._tools))
        self.counts[name] += 1
        return ["call", self._tools[name], name]


def one_tree(bench: Bench, seed: int) -> Passage:
    """Grow a tree, choose where its lives are killed and which replies are lost, and let it recover."""
    grower = Grower(seed)
    tree = ["sequence", grower.tree(3), grower.tree(2)]
    draw, counts = grower.random, dict(grower.counts)
    tag = f"tree{seed}"
    first = draw.randint(FIRST_POINT_OF_MAIN // 2, FIRST_POINT_OF_MAIN + POINTS_A_CALL * sum(counts.values()))
    points = [first, *(draw.randint(3, 40) for _ in range(draw.randint(0, 2)))]
    for name in counts:
        if draw.random() < 0.25:
            for kind in ("keyed", "searchable", "plain"):
                what, skip = f"{tag}:{name}", draw.randint(0, 1)
                bench.provider.control(kind, what=what, skip=skip, drop_reply_after_effect=True)
    program = Program("trees:main", counts, {"tree": tree}, lives=30)
    knobs = tuple({AT_POINT: str(point)} for point in points)
    return bench.recover(program, bench.order(program, tag), knobs, seed)


def test_random_programs_do_exactly_what_they_ask_for(bench: Bench) -> None:
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        passages = list(pool.map(lambda seed: one_tree(bench, seed), range(TREES)))
    assert sum(1 for passage in passages if passage.lives > 2) > TREES // 3, "too few of them were killed"
    assert any(passage.answers for passage in passages)
