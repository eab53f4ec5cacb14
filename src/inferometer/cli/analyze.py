"""`inferometer analyze`: the tables and reports of `inferometer profile`, from what it measured before."""

from inferometer.cli import profile


def main(argv: list[str]) -> int:
    return profile.main(argv, command="analyze")
