"""The script `perf_analyzer`: its command line, its report and its exit codes, to the letter."""
