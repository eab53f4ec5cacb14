"""A TorchServe handler without torch: files begin with the SHA-256 of what follows, or they are refused."""

import hashlib

LENGTH = 32


def handle(data, context):
    return None if data is None else [_answer(row) for row in data]


def _answer(row):
    ((name, value),) = row.items()
    if isinstance(value, dict):
        return {"name": name, "keys": sorted(value)}
    if hashlib.sha256(value[LENGTH:]).digest() != bytes(value[:LENGTH]):
        raise ValueError(f"{len(value)} bytes of '{name}' did not arrive whole")
    return {"name": name, "size": len(value)}
