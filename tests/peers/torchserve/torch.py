"""Stands in for torch, of which TorchServe's worker needs only this name."""


class Tensor:
    """Nothing of ours is one."""
