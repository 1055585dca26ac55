"""What may be typed, family by family; nothing here imports the engine, so that ``perdure --help`` starts at once."""
