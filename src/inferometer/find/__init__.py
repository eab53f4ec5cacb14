"""The most load that keeps a promise."""
