"""Options that several commands share: output files, `--quiet`, and the exit code of an inconclusive verdict."""

from typing import Any

from inferometer.options.option import option, ours
from inferometer.options.values import output_file


def inconclusive_allowed() -> Any:
    """Return the field of the flag that makes an inconclusive verdict exit with 0."""
    return ours("--allow-inconclusive", "Exit with 0 if the result is inconclusive.")


def page(**more: Any) -> Any:
    """Return the field of `--html`, the first option of the group "Output"."""
    text = "Write a self-contained HTML page; - means standard output, here and below"
    return option("--html", text, output_file, group="Output", **more)


def markdown(text: str = "Write Markdown") -> Any:
    return option("--markdown", text, output_file)


def table(text: str = "Write a CSV table", names: str = "-f --csv") -> Any:
    """Return the field of `--csv`."""
    return option(names, text, output_file)


def saved(text: str = "Write the full result, for `inferometer view`") -> Any:
    """Return the field of `--json`."""
    return option("--json", text, output_file)


def junit() -> Any:
    return option("--junit", "Write test cases for CI, as JUnit XML", output_file)


def quiet(text: str = "Print one sentence only") -> Any:
    return option("-q --quiet", text)
