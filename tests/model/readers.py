"""How models read what they are told: each is a policy over its history and nothing else.

All work towards goals and count the receipts they know of. They differ in what a challenge makes them do:

| reader | does |
|---|---|
| truthful | recognises its own goal among the receipts listed; else cites the newest |
| hasty | the same, and takes any result for a new one, whatever stands at its head |
| forward | cites the newest receipt it knows before anybody asks for that |
| stale | cites the oldest receipt it knows, and the right one only after that was refused |
| blind | recognises nothing: cites the newest, always |
| gives up | takes a challenge for an answer |
| rewords | asks again in other words |
| stubborn | asks again in the same words |
"""

from collections import Counter

from tests.model.words import Ask, Call, History, Loop, Receipt, Said

PATIENCE = 5  # answers other than a result, for one goal


def think(loop: Loop, history: History, life: int) -> tuple[Ask, ...]:
    """What the model asks for next; nothing: it is done."""
    met = Counter((receipt.tool, receipt.intent) for receipt in counted(loop, history))
    # What nothing was ever said of, it takes for under way.
    met.update((said.ask.tool.name, said.ask.intent) for said in history if said.outcome in ("failed", "lost"))
    wanted = []
    for goal in loop.goals:
        if met[goal.tool.name, goal.args] > 0:
            met[goal.tool.name, goal.args] -= 1
        elif not gives_up(loop, history, goal):
            wanted.append(goal)
    return tuple(put(loop, history, goal, life) for goal in wanted[: loop.batch])


def counted(loop: Loop, history: History) -> list[Receipt]:
    """The receipts that the model takes for its goals."""
    results = [said for said in history if said.outcome == "done" and said.receipt is not None]
    plain = [said.receipt for said in results if loop.reader == "hasty" or not said.headed]
    named = [said.receipt for said in results]
    if loop.reader != "blind":
        named += [receipt for said in history for receipt in said.listed]
    return plain + [receipt for receipt in dict.fromkeys(named) if receipt not in plain]


def about(history: History, goal: Call) -> list[Said]:
    """What it was told about one goal."""
    return [said for said in history if (said.ask.tool, said.ask.intent) == (goal.tool, goal.args)]


def gives_up(loop: Loop, history: History, goal: Call) -> bool:
    """Whether a goal is left alone from now on."""
    told = about(history, goal)
    refused = [said for said in told if said.outcome == "challenged"]
    if loop.reader == "gives up" and refused:
        return True
    return len(refused) >= PATIENCE or len(told) >= PATIENCE + 2 * loop.goals.count(goal) + 4


def put(loop: Loop, history: History, goal: Call, life: int) -> Ask:
    """The call for a goal, in this life's words, and with the citation that this reader thinks is due."""
    text = f"{goal.args}@{life}" if goal.varies else goal.args
    heard = [said for said in about(history, goal) if said.outcome != "none"]
    refused = bool(heard) and heard[-1].outcome == "challenged"
    if refused and loop.reader == "rewords":
        text = f"{text}'{len(heard)}"
    ask = Ask(goal.tool, text, goal.scope, goal.args, goal.key, manner="tell")
    if loop.reader in ("rewords", "stubborn") or (not refused and loop.reader != "forward"):
        return ask
    listed = [receipt.row for receipt in heard[-1].listed] if refused else []
    if refused and (not listed or (heard[-1].ask.cites is not None or goal.scope is None)):
        return ask._replace(cites=max(listed, default=None))  # the error said which; without a scope only it can know
    return ask._replace(cites=citation(loop, history, ask))


def citation(loop: Loop, history: History, ask: Ask) -> int | None:
    """The receipt to cite: the newest that it knows of this effect, or the oldest if it does not care."""
    known = {said.receipt for said in history if said.receipt is not None and said.outcome == "done"}
    known |= {receipt for said in history for receipt in said.listed}
    kin = [r.row for r in known if (r.tool, r.scope) == (ask.tool.name, ask.scope)]
    return (min if loop.reader == "stale" else max)(kin, default=None)
