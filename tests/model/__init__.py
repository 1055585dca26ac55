"""The rules of a call as a small executable model: what the engine is compared with, and what mutants are tried on."""
