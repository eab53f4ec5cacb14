"""The script `perf_analyzer`: its command line, report and exit codes, exactly as in the classic tool."""
