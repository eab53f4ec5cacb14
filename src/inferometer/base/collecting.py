"""Frequency of Python's cyclic garbage collection."""

import gc

_ALLOCATIONS = 100_000  # between collections; imports alone allocate this many objects, none of them garbage


def collect_rarely() -> None:
    """Collect garbage rarely. Call this before a program imports the rest of its modules."""
    gc.set_threshold(_ALLOCATIONS)
