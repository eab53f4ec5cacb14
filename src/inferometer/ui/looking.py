"""Identify the server at an address for the form: its kind, its models, and the inputs of one model."""

from dataclasses import replace
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.measure.address import connection_to
from inferometer.measure.recognize import ManyModelsError, describe, open_service, recognized
from inferometer.model.spec import TensorSpec
from inferometer.options.command_line import Request, read
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.kind import KINDS
from inferometer.ui.form import ABOUT_SERVER, MODEL, URL, Filled, Startable, offered


def look_at(measure: Startable, filled: Filled) -> dict[str, Any]:
    """Describe the server as a value that can be written as JSON."""
    url = str(filled.get(URL, "")).strip()
    if not url:
        raise UsageError("no address is given", remedy="enter one, such as localhost:8000")
    model = str(filled.get(MODEL, "")).strip().partition("\n")[0]
    options = _options(measure, {**filled, URL: url, MODEL: model})
    try:
        found, said = recognized(options, "measure")
    except ManyModelsError as error:
        return {"server": _title(error.options), "models": error.names, "inputs": [], "outputs": []}
    if not KINDS[found.service_kind].needs_model:
        return {"server": _title(found), "models": [], "inputs": [], "outputs": [], "said": said}
    connection = connection_to(found)
    spec = describe(open_service(found, connection), found, connection, "measure", is_found=True)
    return {
        "server": _title(found),
        "models": _models(found, connection),
        "model": found.model,
        "batch": spec.max_batch_size,
        "inputs": [_tensor(row) for row in spec.inputs],
        "outputs": [_tensor(row) for row in spec.outputs],
    }


def _options(measure: Startable, filled: Filled) -> Options:
    words = ["-u", str(filled[URL])]
    if filled[MODEL]:
        words += ["-m", str(filled[MODEL])]
    for title, row in offered(measure):
        value = filled.get(row.names[-1])
        is_asking = title == ABOUT_SERVER and row.values is None
        if is_asking and value is True:
            words.append(row.names[-1])
        elif row.field in ("headers", "service_kind", "protocol", "api_key_env") and isinstance(value, str):
            words += [
                word for line in value.splitlines() if line.strip() for word in (row.names[-1], line.strip())
            ]
    request = read(words, measure.command)
    assert isinstance(request, Request)
    options = measure.check(request)
    assert options is not None
    return replace(options, request_timeout_s=min(options.request_timeout_s or 10.0, 10.0))


def _models(options: Options, connection: Connection) -> list[str]:
    try:
        return sorted(open_service(options, connection).models())
    except UsageError:
        return [options.model]


def _title(options: Options) -> str:
    way = " over gRPC" if options.protocol == "grpc" else ""
    return f"{KINDS[options.service_kind].title}{way} at {options.url}"


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    shape = " × ".join("any" if dim < 0 else str(dim) for dim in spec.shape) or "one value"
    return {"name": spec.name, "datatype": spec.datatype, "shape": shape, "is_open": spec.is_dynamic}
