"""A long hunt for a schedule that repeats an effect, loses one, or leaves a run stuck: `python3 tasks.py soak`."""
