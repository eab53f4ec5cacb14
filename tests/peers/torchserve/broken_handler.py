"""A TorchServe handler whose worker never comes up."""

raise RuntimeError("this handler cannot be loaded")
