"""Load from many machines: clients on each of them, one controller, one result."""
