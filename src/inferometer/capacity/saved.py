"""The saved results of a plan, each with its name and price."""

from collections.abc import Sequence
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.capacity.replica import REMEDY
from inferometer.capacity.run import SavedOption
from inferometer.options.names import option_name
from inferometer.stats.result import Result
from inferometer.stats.saved import read

Prices = Sequence[tuple[str, float]]
"""(name of an option or "" for all, price per hour)"""


def saved_options(files: Sequence[tuple[str, Path]], prices: Prices) -> tuple[SavedOption, ...]:
    """Read the saved results, given as (name as given, file) pairs."""
    if not files:
        raise UsageError(
            "no saved result given", remedy=f"give one with {option_name('--options')}; {REMEDY}"
        )
    return priced([(name, read(file, Result)) for name, file in files], prices)


def named_options(given: Sequence[str | Path | Result], prices: Prices) -> tuple[SavedOption, ...]:
    """Return options for results or result files; results are named option1, option2 and so on."""
    if not given:
        raise UsageError("no saved result given", remedy="pass results of api.measure, or their files")
    return priced(
        [
            (f"option{number}", one) if isinstance(one, Result) else (str(one), read(Path(one), Result))
            for number, one in enumerate(given, start=1)
        ],
        prices,
    )


def priced(results: Sequence[tuple[str, Result]], prices: Prices) -> tuple[SavedOption, ...]:
    """Assign names and prices to (name or path, result) pairs."""
    names = _names([name for name, _ in results])
    known = dict(prices)
    for name, _ in prices:
        if name and name not in names:
            raise UsageError(
                f"{option_name('--price')} names '{name}', but the options are {', '.join(names)}",
                remedy="give the file name without .json",
            )
    if len(known) < len(prices):
        raise UsageError(
            f"{option_name('--price')} is given twice for the same option", remedy="give it once"
        )
    return tuple(
        SavedOption(name, result, known.get(name, known.get("")))
        for name, (_, result) in zip(names, results, strict=True)
    )


def _names(given: Sequence[str]) -> list[str]:
    """Strip folder and suffix if the names stay distinct."""
    stems = [Path(name).name.removesuffix(".json") for name in given]
    names = stems if len(set(stems)) == len(stems) else [name.removesuffix(".json") for name in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the option '{twice}' is given twice", remedy="give each once")
    return names
