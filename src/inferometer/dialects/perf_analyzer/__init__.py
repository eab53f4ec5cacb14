"""The script `perf_analyzer`: exactly the classic command line, report and exit codes."""
