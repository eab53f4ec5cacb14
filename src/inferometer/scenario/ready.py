"""The scenarios included in the package. Their classes use the model of the command line."""

from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.text import nearest
from inferometer.base.units import plain_number
from inferometer.scenario.spec import Scenario, read_scenario

FOLDER = Path(__file__).parent / "files"


def ready_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def open_scenario(word: str) -> Scenario:
    """Open an included scenario by name, or a scenario file."""
    if word in ready_names() and not Path(word).is_file():
        return read_scenario(FOLDER / f"{word}.yaml")
    if "/" not in word and "." not in word and not Path(word).exists():
        close = nearest(word, ready_names())
        remedy = f"did you mean '{close}'?" if close else f"the scenarios are {', '.join(ready_names())}"
        raise UsageError(f"unknown scenario '{word}'", remedy=remedy)
    return read_scenario(Path(word))


def listing() -> str:
    """Return the names of the included scenarios with their purposes."""
    rows = [(name, read_scenario(FOLDER / f"{name}.yaml")) for name in ready_names()]
    lines = [f"{name:<22}{scenario.about} ({plain_number(scenario.seconds)} s)" for name, scenario in rows]
    return "\n".join(
        [
            *lines,
            "",
            "To run one: inferometer measure URL MODEL --scenario NAME. -r sets the rate that `load` multiplies,",
            "and -d the time of the whole scenario. To adapt one, copy it from",
            str(FOLDER),
        ]
    )
