"""Pure rules: data in, data out. No clock, no I/O, no logging."""
