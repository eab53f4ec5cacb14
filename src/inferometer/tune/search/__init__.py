"""Ways to search a space: each a generator of proposals that is sent the trials, pure and repeatable."""
