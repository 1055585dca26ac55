"""``perdure demo``: a real job on real servers, killed at its worst moments, and what the servers counted."""
