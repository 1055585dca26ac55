"""An independent provider: a separate process whose own log is the only judge of what really happened."""
