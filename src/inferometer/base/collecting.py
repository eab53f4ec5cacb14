"""How often Python looks for garbage that refers to itself."""

import gc

_ALLOCATIONS = 100_000  # since the last look; what is imported makes as many, and nothing of it is garbage


def collect_rarely() -> None:
    """In a program of ours, before it imports the rest of itself."""
    gc.set_threshold(_ALLOCATIONS)
