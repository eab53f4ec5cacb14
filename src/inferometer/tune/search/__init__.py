"""Search methods: pure, deterministic generators of proposals that are sent the trials."""
