"""The scenarios that come with the package. Their classes have no model: that of the command line is loaded."""

from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.text import nearest
from inferometer.base.units import plain_number
from inferometer.scenario.spec import Scenario, read_scenario

FOLDER = Path(__file__).parent / "files"
LIST = "list"


def ready_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def open_scenario(word: str) -> Scenario:
    """A ready one by its name, or the one in a file."""
    if word in ready_names() and not Path(word).is_file():
        return read_scenario(FOLDER / f"{word}.yaml")
    if "/" not in word and "." not in word and not Path(word).exists():
        close = nearest(word, ready_names())
        remedy = f"did you mean '{close}'?" if close else f"those there are: {', '.join(ready_names())}"
        raise UsageError(f"there is no scenario '{word}'", remedy=remedy)
    return read_scenario(Path(word))


def listing() -> str:
    """The names, each with what it is for."""
    rows = [(name, read_scenario(FOLDER / f"{name}.yaml")) for name in ready_names()]
    lines = [f"{name:<12}{scenario.about} ({plain_number(scenario.seconds)} s)" for name, scenario in rows]
    return "\n".join(
        [
            *lines,
            "",
            "inferometer measure URL MODEL --scenario NAME loads MODEL so; -r is the rate that `load` multiplies,",
            "-d the time of the whole scenario. The files can be copied from",
            str(FOLDER),
        ]
    )
