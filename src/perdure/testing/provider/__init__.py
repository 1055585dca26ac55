"""An independent provider: a separate process whose own log is the only judge of what really happened.

It is made of the standard library alone and knows nothing of the engine, so that a fault of the engine cannot hide
in it.
"""
