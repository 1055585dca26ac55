"""What one life knows of its files: its resume packet, and what was in flight when it began."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.packet import ResumePacket


@dataclass(slots=True)
class LifeFiles:
    """Part of a life.

    Args:
        packet: what an earlier life left, as this one began; ``None`` in the first.
        in_flight: numbers of the rows that were started when this life began.
    """

    packet: ResumePacket | None = None
    in_flight: tuple[int, ...] = ()
