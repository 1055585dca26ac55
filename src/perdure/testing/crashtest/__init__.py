"""``perdure crashtest JOB``: a user's own job, killed at every numbered crash point, resumed, and counted outside."""
