"""What holds for every test."""

import signal

# A shell that runs the suite in the background makes it ignore SIGINT, and its children would inherit that: the tests of
# Ctrl-C need what a person at a terminal has.
signal.signal(signal.SIGINT, signal.default_int_handler)
