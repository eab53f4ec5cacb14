"""`inferometer analyze`: another name of `inferometer profile`."""

from inferometer.cli import profile


def main(argv: list[str]) -> int:
    return profile.main(argv, command="analyze")
