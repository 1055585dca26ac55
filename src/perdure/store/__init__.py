"""Keeps rows: one SQL store, its migrations and its connection."""
