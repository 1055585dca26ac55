"""SQLite: the connection, the named statements and the migrations."""
