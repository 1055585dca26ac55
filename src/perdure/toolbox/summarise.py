"""A deterministic summary: the most telling sentences of a text, by lede, with no model and no network."""

from __future__ import annotations

from perdure.ports.tool import ToolFailed, tool


@tool(side_effect_class="read_only")
def summarise(text: str, sentences: int = 5) -> str:
    """Return at most ``sentences`` sentences of ``text``, unchanged and in their order.

    Args:
        text: plain text; a blank line ends a paragraph.
        sentences: how many to keep at most.

    Raises:
        ToolFailed: ``sentences`` is less than one.
    """
    from lede import summarize  # type: ignore[import-untyped]
    from lede.sentences import split_sentences  # type: ignore[import-untyped]

    if sentences < 1:
        raise ToolFailed("a summary needs at least one sentence", retry=False)
    if len(split_sentences(text)) <= sentences:
        return text.strip()
    # lede's measure is a budget of characters: take the largest that gives no more sentences than asked for.
    best = ""
    low, high = 1, len(text)
    while low <= high:
        budget = (low + high) // 2
        candidate = summarize(text, max_length=budget).summary
        if len(split_sentences(candidate)) <= sentences:
            best, low = candidate, budget + 1
        else:
            high = budget - 1
    return best
