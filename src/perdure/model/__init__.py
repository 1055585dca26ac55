"""Frozen values that every other layer speaks in; standard library only."""
