"""`inferometer report`: detailed reports of variants that were measured."""

from inferometer.cli import profile


def main(argv: list[str]) -> int:
    return profile.main(argv, command="report")
