"""The two classic command lines, `perf_analyzer` and `model-analyzer`, on our engine."""
