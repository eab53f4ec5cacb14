"""What limits a model, what would help and how much: pure functions, and the shell that tries them out."""
