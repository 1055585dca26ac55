"""The command line: parse, call the engine, print. It can do nothing that the library cannot."""
