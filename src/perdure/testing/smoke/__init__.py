"""``perdure smoke``: a small real job, killed at its worst moments, resumed, and counted outside (R102, R103)."""
