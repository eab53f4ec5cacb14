"""Find the bottleneck of a model and suggest improvements: pure functions, and the shell that tries suggestions."""
