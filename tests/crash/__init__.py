"""Real processes are killed at every numbered point, resumed, and counted at an independent provider."""
