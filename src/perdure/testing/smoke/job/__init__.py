"""The job of the smoke test, in a folder of its own: a job's folder is put on ``sys.path``."""
