"""The configuration of a command: the command line overrides YAML, which overrides defaults."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferometer import __version__
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import CONFIG, read_text
from inferometer.base.yaml_text import YamlError, load_yaml
from inferometer.dialects.model_analyzer.config import (
    DEFAULTS,
    EMPTY_IS_NONE,
    GROUPS,
    KEYS,
    PROFILE,
    REPORT,
    Config,
    called,
    keys_of,
    option,
)
from inferometer.options.words import is_surely_address
from inferometer.stats.figures import OLD_LATENCY

ANALYZE = "analyze"
OLD_MODELS = "analysis_models"  # of the older tool, for `analyze` only


@frozen
class Program:
    """One of the two programs with these commands."""

    name: str
    mark: str  # prefix of its lines
    search: str  # default search mode
    is_classic: bool = False  # has `-m` before the command, and the classic default ports
    commands: tuple[str, ...] = ("profile", "analyze", "report")


CLASSIC = Program("model-analyzer", "Model Analyzer", "brute", is_classic=True)
OURS = Program("inferometer", "inferometer", "smart")


def parser(program: Program) -> argparse.ArgumentParser:
    """Return the parser of the program: global options, then a command with its own."""
    top = argparse.ArgumentParser(prog=program.name, description="Find the best configuration of a model.")
    if program.is_classic:
        _add_mode(top, "-m", "--mode")
        top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", metavar="{profile,analyze,report}")
    for name in program.commands:
        command = commands.add_parser(name, help=_WHAT[name], description=_WHAT[name].capitalize() + ".")
        _add_options(command, name, program)
    return top


_WHAT = {
    "profile": "search for the best configurations, and write tables and reports",
    "analyze": "rebuild the tables and reports of profile from saved measurements",
    "report": "write detailed reports of measured variants",
}


def _add_mode(parser: argparse.ArgumentParser, *names: str) -> None:
    parser.add_argument(
        *names, choices=("online", "offline"), default="online", dest="mode", help="what reports show"
    )


def _add_options(command: argparse.ArgumentParser, name: str, program: Program) -> None:
    command.add_argument("-q", "--quiet", action="store_true", help="errors only")
    command.add_argument("-v", "--verbose", action="store_true", help="details, and the tables")
    if program.is_classic:
        command.add_argument("--version", action="version", version=__version__)
    else:
        _add_mode(command, "--mode")
    known = keys_of(name)
    group: Any = command
    for key in KEYS:
        if key in GROUPS:
            group = command.add_argument_group(GROUPS[key]) if GROUPS[key] else command
        if key in known and KEYS[key].is_word:
            _add_option(group, key, program)
    if name == ANALYZE:
        command.add_argument(
            option(OLD_MODELS), metavar="VALUE", dest=OLD_MODELS,
            help="models to report on, separated by commas; former name of --profile-models",
        )  # fmt: skip
    if name == REPORT:  # the classic tool's spelling
        command.add_argument(
            "--always_report-gpu-metrics",
            action="store_const", const=True, dest="always_report_gpu_metrics", help=argparse.SUPPRESS,
        )  # fmt: skip


def _add_option(group: Any, name: str, program: Program) -> None:
    key = KEYS[name]
    names = [f"-{key.short}", option(name)] if key.short else [option(name)]
    text = f"{key.help}{_default(name, program)}".replace("%", "%%")
    if key.kind is bool:
        group.add_argument(*names, action="store_const", const=True, dest=name, help=text)
        return
    choices = {"choices": key.choices} if key.choices else {"metavar": _METAVARS.get(key.kind, "VALUE")}
    group.add_argument(*names, type=key.kind, dest=name, help=text, **choices)


_METAVARS = {int: "N", float: "NUMBER"}


def _default(name: str, program: Program) -> str:
    default = program.search if name == "run_config_search_mode" else getattr(DEFAULTS, name)
    shown = KEYS[name].shown or ("" if default in (None, (), False) else str(default))
    return f" (default: {shown})" if shown else ""


def read_command(argv: Sequence[str], program: Program) -> Config | None:
    """Read the configuration; None if no command was given, for help. Usage errors exit like argparse."""
    if not program.is_classic and len(argv) > 1 and is_surely_address(argv[1]):
        parser(program).error(
            f"'{argv[1]}' is unexpected; to measure it, write inferometer measure {shlex.join(argv[1:])}"
        )
    found = vars(parser(program).parse_args(list(argv)))
    command = found["command"]
    if command is None:
        return None
    words = {name: value for name, value in found.items() if name in KEYS and value is not None}
    lines = _with_old_models(_read_file(words), found, words)
    if "profile_models" in words and "profile_models" in lines:
        raise UsageError(
            "profile_models is given on the command line (--profile-models) and in the YAML file "
            f"'{words['config_file']}'",
            remedy="give it in one place",
        )
    given = {**lines, **words}
    known = [name for name in keys_of(command) if name in given]
    values = {name: KEYS[name].read(called(name) if name in words else name, given[name]) for name in known}
    return Config(
        command=command,
        mode=found["mode"],
        is_quiet=found["quiet"],
        is_verbose=found["verbose"] and not found["quiet"],
        given=frozenset(known),
        has_old_names=_mentions(given, OLD_LATENCY),
        **{"run_config_search_mode": program.search, **values},
    )


_OF_LOADS = (
    "-u",
    "--url",
    "--model",
    "--endpoint",
    "--endpoint-type",
    "--streaming",
    "--tokenizer",
)
"""Options of tools whose command `profile` loads one server."""


def check_tool(name: str, words: Sequence[str]) -> None:
    """Raise for a command line of another tool that has a command `profile` or `report`."""
    given = [word.partition("=")[0] for word in words]
    option = next((word for word in given if name == PROFILE and word in _OF_LOADS), None)
    if option is not None:
        raise UsageError(
            f"unknown option '{option}'",
            remedy="this command searches configurations, as model-analyzer does; to measure a server, write "
            "inferometer measure URL MODEL",
        )
    if name == REPORT and len(words) == 1 and not words[0].startswith("-"):
        raise UsageError(
            f"unexpected argument '{words[0]}'",
            remedy=f"for the report of a saved run, write inferometer view {shlex.quote(words[0])}",
        )


def _with_old_models(
    lines: Mapping[str, Any], found: Mapping[str, Any], words: dict[str, Any]
) -> Mapping[str, Any]:
    """Return the file's settings with the models of `analysis_models` for `analyze`. In the older tool it overrides
    the `profile_models` of the same file."""
    rest = {name: value for name, value in lines.items() if name != OLD_MODELS}
    if found["command"] != ANALYZE:
        return rest
    if found[OLD_MODELS] is not None:
        if "profile_models" in words:
            raise UsageError(
                f"{option(OLD_MODELS)} and --profile-models are mutually exclusive", remedy="give only one"
            )
        words["profile_models"] = found[OLD_MODELS]
        return {name: value for name, value in rest.items() if name != "profile_models"}
    if OLD_MODELS in lines and "profile_models" not in words:
        return {**rest, "profile_models": lines[OLD_MODELS]}
    return rest


def _mentions(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return any(key == name or _mentions(row, name) for key, row in value.items())
    if isinstance(value, list):
        return any(_mentions(row, name) for row in value)
    return isinstance(value, str) and name in (word.strip() for word in value.split(","))


def _read_file(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the YAML file, without keys that have no value, or an empty one where that means none."""
    if "config_file" not in words:
        return {}
    path = Path(words["config_file"])
    text = read_text(path, CONFIG, "the file", remedy="check --config-file")
    try:
        found = load_yaml(text)
    except YamlError as error:
        raise UsageError(f"'{path}' is not YAML: {error}", remedy="correct the file") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UsageError(f"'{path}' holds {type(found).__name__}", remedy="write keys and values")
    unknown = [str(key) for key in found if key not in KEYS and key != OLD_MODELS]
    if unknown:
        raise UnknownKeys(path, unknown)
    return {
        key: value
        for key, value in found.items()
        if key != "config_file" and value is not None and not (key in EMPTY_IS_NONE and value in ("", [], {}))
    }


class UnknownKeys(UsageError):
    """Unknown keys of a YAML file; each is reported on its own line."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        super().__init__(
            f"'{path}' has unknown keys: {', '.join(keys)}",
            remedy=f"the keys are {', '.join(sorted(KEYS))}",
        )
        self.keys = tuple(keys)
