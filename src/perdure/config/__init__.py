"""Files and settings from outside: job files, policy files, flags and environment."""
