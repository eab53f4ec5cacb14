"""How many replicas for this traffic inside this promise, from saved results."""
