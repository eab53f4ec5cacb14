"""The command of a server from the user's options: `--serve`, `--preset`, `--serve-env`, `--serve-file`, `--ready`."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.options.names import option_name
from inferometer.server.launcher import ServerCommand, find_program, read_template
from inferometer.server.ports import LOOPBACK
from inferometer.server.presets import PRESETS, Preset, maybe_preset
from inferometer.server.ready import ReadyCheck, parse_ready
from inferometer.server.set_call import parse_set_call
from inferometer.server.template import PORT, filled, is_built_in, names_in, split_command

_DEFAULT_ADDRESS = f"http://{LOOPBACK}:{{port}}"


@frozen
class ServeRequest:
    """Options that describe how to start a server, as the user wrote them."""

    serve: str | None
    preset: str | None
    logs: Path
    start_s: float
    url: str | None = None
    environment: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    ready: str | None = None
    calls: tuple[str, ...] = ()


def preset_of(serve: str, preset: str | None) -> Preset | None:
    """Return the named preset, or the preset of the server that the command starts."""
    return (
        PRESETS[preset] if preset is not None else maybe_preset(split_command(serve, option_name("--serve")))
    )


def command_of(request: ServeRequest, preset: Preset | None) -> ServerCommand:
    """Check the command and return how to start it."""
    if request.serve is None:
        assert request.preset is not None
        raise UsageError(
            f"{option_name('--preset')} {request.preset} needs the command that starts the server",
            remedy=f"add {option_name('--serve')} '{PRESETS[request.preset].example}'",
        )
    words = split_command(request.serve, option_name("--serve"))
    find_program(words)
    address = request.url or _DEFAULT_ADDRESS
    host, port = _place_of(address)
    files = tuple(_file_of(word) for word in request.files)
    default = preset.ready if preset is not None else ReadyCheck()
    command = ServerCommand(
        words,
        environment=_environment_of(request, preset),
        files=files,
        address=address,
        host=host,
        port=port,
        ready=default if request.ready is None else parse_ready(option_name("--ready"), request.ready),
        start_s=request.start_s,
        logs=request.logs,
        calls=tuple(parse_set_call(option_name("--serve-set"), text) for text in request.calls),
    )
    used = names_in(
        [*words, *(value for _, value in command.environment), *map(read_template, dict(files).values())]
    )
    if port is None and PORT not in used:
        raise UsageError(
            f"{option_name('--serve')} has no {{port}}, so requests cannot be sent to the port of the server",
            remedy="write {port} where the command takes its port, or name its address with "
            f"{option_name('--url')} HOST:PORT",
        )
    unused = [name for name in dict(files) if name not in used]
    if unused:
        raise UsageError(
            f"{option_name('--serve-file')} {unused[0]} is not used",
            remedy=f"write {{{unused[0]}}} in the command for the path of the file",
        )
    return command


def _environment_of(request: ServeRequest, preset: Preset | None) -> tuple[tuple[str, str], ...]:
    """Return the user's variables, and those of the preset that the user does not set."""
    usual = {} if preset is None else dict(preset.environment)
    return tuple({**usual, **dict(map(_variable_of, request.environment))}.items())


def _place_of(address: str) -> tuple[str, int | None]:
    """Return host and port of an address; None for the port {port}."""
    text = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(filled(text.replace(f"{{{PORT}}}", "0"), {}))
        host, port = parts.hostname, parts.port
    except (ValueError, KeyError):
        host, port = None, None
    if host is None or (port is None and f":{{{PORT}}}" not in text):
        raise UsageError(
            f"{option_name('--url')} {address} is not the address of the started server",
            remedy=f"write {_DEFAULT_ADDRESS}, with a path if requests need one, or a fixed port",
        )
    return host, port or None


def _variable_of(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign or re.fullmatch(r"[A-Za-z_]\w*", name) is None:
        raise UsageError(
            f"{option_name('--serve-env')} '{word}' is not a variable", remedy="write NAME=VALUE"
        )
    return name, value


def _file_of(word: str) -> tuple[str, Path]:
    name, sign, path = word.partition("=")
    if not sign or re.fullmatch(r"[A-Za-z_]\w*", name) is None or is_built_in(name) or not path:
        raise UsageError(
            f"{option_name('--serve-file')} '{word}' does not name a template",
            remedy="write NAME=FILE, for {NAME} in the command",
        )
    return name, Path(path)
