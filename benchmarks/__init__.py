"""The bars of this project, measured against the tools it wants to beat: `python -m benchmarks`."""
