"""Find what limits a model and what would help: pure functions, and the shell that tries suggestions."""
