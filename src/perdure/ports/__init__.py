"""What the engine needs from outside, as narrow protocols; ``@tool`` lives here."""
