"""Command line over YAML over defaults: what was asked, checked value by value."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer.keys import BY_NAME, KEYS, PROFILE, REPORT, Key
from inferometer.dialects.model_analyzer.models import ModelAsked
from inferometer.tune.metrics import OLD_LATENCY

CONFIG_FILE = "config_file"


_MOST_VALUES = 1_000_000  # of a YAML file


@dataclass(frozen=True, slots=True)
class Asked:
    """Values by key; `given` are those the user set, in either place."""

    command: str
    values: Mapping[str, Any]
    given: frozenset[str] = frozenset()
    mode: str = "online"
    is_quiet: bool = False
    is_verbose: bool = False
    has_old_names: bool = False  # of metrics

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def has(self, *names: str) -> bool:
        return any(name in self.given for name in names)

    def lines(self) -> Iterator[str]:
        """Every setting as it is in effect; what may be a secret is left out."""
        for name, value in self.values.items():
            yield f"{name}: {_shown(name, value)}"


_SECRETS = ("http-header", "triton_server_environment", "triton_docker_args")


def _shown(name: str, value: Any) -> Any:
    if name in _SECRETS and value:
        return "given, not shown"
    if isinstance(value, Mapping):
        return {key: _shown(str(key), row) for key, row in value.items()}
    if isinstance(value, ModelAsked):
        return {value.name: _shown("", value.own)} if value.own else value.name
    if isinstance(value, tuple) and all(isinstance(row, tuple) and len(row) == 2 for row in value):
        return {str(key): _shown(str(key), row) for key, row in value}
    return [_shown("", row) for row in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the same words are spoken by the two programs."""

    program: str
    search: str  # the default one
    has_global_mode: bool  # `-m` before the command
    picks_ports: bool = False  # where none are given, instead of the classic ones
    commands: tuple[str, ...] = ("profile", "analyze", "report")
    version: str = ""
    description: str = field(default="Find the best configuration of a model.")


CLASSIC = Dialect("model-analyzer", "brute", has_global_mode=True)
OURS = Dialect("inferometer", "smart", has_global_mode=False, picks_ports=True)


def parser(dialect: Dialect) -> argparse.ArgumentParser:
    """Of the whole program: global options, then a command with its own."""
    top = argparse.ArgumentParser(prog=dialect.program, description=dialect.description)
    if dialect.has_global_mode:
        modes = ("online", "offline")
        top.add_argument(
            "-m", "--mode", choices=modes, default="online", dest="mode", help="what reports show"
        )
        top.add_argument("--version", action="version", version=dialect.version)
    commands = top.add_subparsers(dest="command", metavar="{profile,analyze,report}")
    for name in dialect.commands:
        command = commands.add_parser(name, help=_WHAT[name], description=_WHAT[name].capitalize() + ".")
        _add_options(command, REPORT if name == "report" else PROFILE, dialect)
    return top


_WHAT = {
    "profile": "search configurations, measure them, write tables and reports",
    "analyze": "the tables and reports of profile, from what was measured before; nothing is measured",
    "report": "detailed reports of variants that were measured",
}


def _add_options(command: argparse.ArgumentParser, name: str, dialect: Dialect) -> None:
    command.add_argument("-q", "--quiet", action="store_true", help="errors only")
    command.add_argument("-v", "--verbose", action="store_true", help="details, and the tables")
    if not dialect.has_global_mode:
        modes = ("online", "offline")
        command.add_argument("--mode", choices=modes, default="online", help="what reports show")
    if dialect.version:
        command.add_argument("--version", action="version", version=dialect.version)
    groups: dict[str, Any] = {}
    for key in KEYS:
        if not key.is_word or name not in key.commands:
            continue
        if key.group not in groups:
            groups[key.group] = command.add_argument_group(key.group) if key.group else command
        _add_option(groups[key.group], key, dialect)
    if name == REPORT:  # as the classic tool spells it there
        command.add_argument(
            "--always_report-gpu-metrics",
            action="store_const", const=True, dest="always_report_gpu_metrics", help=argparse.SUPPRESS,
        )  # fmt: skip


def _add_option(group: Any, key: Key, dialect: Dialect) -> None:
    names = [f"-{key.short}", key.option] if key.short else [key.option]
    text = f"{key.help}{_default(key, dialect)}".replace("%", "%%")
    if key.kind is bool:
        group.add_argument(*names, action="store_const", const=True, dest=key.name, help=text)
        return
    choices = {"choices": key.choices} if key.choices else {}
    metavar = {} if key.choices else {"metavar": _METAVARS.get(key.kind, "VALUE")}
    group.add_argument(*names, type=key.kind, dest=key.name, help=text, **choices, **metavar)


_METAVARS = {int: "N", float: "NUMBER"}


def _default(key: Key, dialect: Dialect) -> str:
    shown = key.shown or ("" if key.default in (None, (), False) else str(key.default))
    if key.name == "run_config_search_mode":
        shown = dialect.search
    return f" (default: {shown})" if shown else ""


def ask(argv: Sequence[str], dialect: Dialect) -> Asked | None:
    """None when no command was given: then the help is wanted. Bad usage ends the program as argparse does."""
    found = vars(parser(dialect).parse_args(list(argv)))
    if found["command"] is None:
        return None
    # `analyze` has the options of `profile`.
    command = REPORT if found["command"] == REPORT else PROFILE
    words = {name: value for name, value in found.items() if name in BY_NAME and value is not None}
    lines = _read_file(words)
    if "profile_models" in words and "profile_models" in lines:
        raise UsageError(
            "profile_models is given on the command line (--profile-models) and in the YAML file "
            f"'{words[CONFIG_FILE]}'",
            remedy="give it in one place",
        )
    given = {**lines, **words}
    values = {
        key.name: key.read(_path(key.name, words), given[key.name]) if key.name in given else key.default
        for key in KEYS
        if command in key.commands
    }
    if "run_config_search_mode" not in given:
        values["run_config_search_mode"] = dialect.search
    return Asked(
        found["command"],
        values,
        frozenset(name for name in given if command in BY_NAME[name].commands),
        mode=found["mode"],
        is_quiet=found["quiet"],
        is_verbose=found["verbose"] and not found["quiet"],
        has_old_names=_mentions(given, OLD_LATENCY),
    )


def _mentions(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return any(key == name or _mentions(row, name) for key, row in value.items())
    if isinstance(value, list):
        return any(row == name or _mentions(row, name) for row in value)
    return isinstance(value, str) and name in (word.strip() for word in value.split(","))


def _path(name: str, words: Mapping[str, Any]) -> str:
    """A value is called as it was written."""
    return f"{BY_NAME[name].option} ({name})" if name in words else name


def _read_file(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the YAML file sets; a key without a value is not set."""
    if CONFIG_FILE not in words:
        return {}
    import yaml

    path = Path(words[CONFIG_FILE])
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the file '{path}' cannot be read: {getattr(error, 'strerror', None) or error}",
            remedy="check --config-file",
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"'{path}' is not YAML: {_one_line(error)}", remedy="mend the file") from error
    _require_an_end(path, found)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UsageError(f"'{path}' holds {type(found).__name__}", remedy="write keys and values")
    unknown = [str(key) for key in found if key not in BY_NAME]
    if unknown:
        raise UnknownKeys(path, unknown)
    return {key: value for key, value in found.items() if value is not None and key != CONFIG_FILE}


def _require_an_end(path: Path, document: Any) -> None:
    """References may stand for very many values, or for what they stand in."""
    sizes: dict[int, int] = {}

    def size(value: Any) -> int:
        if not isinstance(value, (dict, list, set)):
            return 1
        if id(value) not in sizes:
            sizes[id(value)] = (
                _MOST_VALUES  # as long as it is not known: of one that holds itself there is no end
            )
            parts = [*value, *value.values()] if isinstance(value, dict) else value
            sizes[id(value)] = 1 + sum(map(size, parts))
        return sizes[id(value)]

    if size(document) >= _MOST_VALUES:
        raise UsageError(f"'{path}' stands for more than {_MOST_VALUES} values", remedy="write them out")


def _one_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return f"{place}{getattr(error, 'problem', None) or error}"


class UnknownKeys(UsageError):
    """Keys of a YAML file that mean nothing, each to be named on its own line."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        super().__init__(
            f"'{path}' has unknown keys: {', '.join(keys)}",
            remedy=f"the keys are {', '.join(sorted(BY_NAME))}",
        )
        self.keys = tuple(keys)
