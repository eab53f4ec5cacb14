"""The first request of a run and one reply as text: headers and JSON verbatim, binary data shortened.

Headers given by the user may be secrets: their values are masked.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.secrets import MASK, redacted
from inferometer.base.text import is_digits, printable
from inferometer.base.units import NS_PER_MS
from inferometer.load.single import FirstRequest, SingleReply, exchange, first_request, messages_of
from inferometer.measure.opening import registered_memory
from inferometer.measure.prepare import Setup
from inferometer.model.spec import Tensor
from inferometer.options.names import option_name
from inferometer.services.endpoint import Connection, without_key
from inferometer.services.traffic import IN_PROCESS
from inferometer.wire.sse import Event, SseDecoder

FEW = 8  # elements of a tensor, or bytes
LONGEST = 4000  # characters of a text
MOST = 5  # responses of a stream
WIDTH = 100  # of a line that holds a whole message

_HARMLESS = frozenset(
    ("accept", "accept-encoding", "connection", "content-length", "content-type", "host", "te", "user-agent")
)
_SECRET = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"))
_LENGTH = "inference-header-content-length"
_RAW = {"raw_input_contents": "inputs", "raw_output_contents": "outputs"}
"""Fields of KServe v2 messages that hold raw tensors, with the fields that describe them."""


def first_of(setup: Setup) -> FirstRequest:
    """Return the first request of a run."""
    agenda = setup.agenda
    steps = None if agenda is None else (agenda.before or agenda).steps
    return first_request(setup.traffic, step=steps[0] if steps else 0, sequences=setup.sequences)


def send(setup: Setup, request: FirstRequest) -> SingleReply:
    """Send the request once."""
    if setup.traffic.wiring.protocol == IN_PROCESS:
        raise UsageError(
            "an in-process Triton is not reached over a network, so there is no reply to show",
            remedy=f"use {option_name('--dry-run')}, or start the server with inferometer serve and give "
            "its address",
        )
    with registered_memory(setup):
        return exchange(setup.traffic.wiring, request, timeout_s=setup.options.request_timeout_s)


# --- requests


def request_text(setup: Setup, request: FirstRequest) -> str:
    """Format the whole request as sent."""
    endpoint = setup.traffic.wiring.endpoint
    if setup.traffic.wiring.protocol == IN_PROCESS:
        title, lines = "handed over in this process", _message_lines(setup, request.data, is_reply=False)
    elif request.call is not None:
        title, lines = f"to {endpoint.authority} over gRPC", _call_lines(setup, request)
    else:
        title, lines = f"to {endpoint.authority} over HTTP", _http_lines(setup, request.data)
    secure = ", with TLS" if endpoint.tls is not None else ""
    return _text([f"# request {title}{secure}", *lines])


def _http_lines(setup: Setup, data: bytes) -> Iterator[str]:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("utf-8", "replace").split("\r\n")
    fields = [(name, value.strip()) for name, _, value in (line.partition(":") for line in rest)]
    yield first
    yield from _fields(fields, {name.lower() for name, _ in setup.options.headers})
    yield ""
    headers = {name.lower(): value for name, value in fields}
    boundary = headers.get("content-type", "").partition("boundary=")[2].strip('"')
    if boundary:
        yield from _form_lines(body, boundary)
    else:
        yield from _body_lines(body, headers.get(_LENGTH), "inputs")


def _form_lines(body: bytes, boundary: str) -> Iterator[str]:
    """Format the parts of a form: headers verbatim, contents shortened."""
    mark = f"--{boundary}".encode()
    for part in body.removesuffix(b"\r\n").removesuffix(b"--").removesuffix(mark).split(mark + b"\r\n")[1:]:
        head, _, content = part.removesuffix(b"\r\n").partition(b"\r\n\r\n")
        yield from (f"--{boundary}", head.decode("utf-8", "replace"), "", _words(content))
    yield f"--{boundary}--"


def _call_lines(setup: Setup, request: FirstRequest) -> Iterator[str]:
    yield from _fields(request.metadata, {name.lower() for name, _ in setup.options.headers})
    for message, packed_size in messages_of(request.data):
        yield ""
        if packed_size is not None:
            yield f"# compressed with {setup.traffic.wiring.compression} to {packed_size} bytes"
        yield from _message_lines(setup, message, is_reply=False)


def _fields(fields: Iterable[tuple[str, str]], given: set[str]) -> Iterator[str]:
    for name, value in fields:
        low = name.lower()
        is_masked = low in _SECRET or (low in given and low not in _HARMLESS)
        yield f"{name}: {MASK if is_masked else value}"


# --- bodies


def _body_lines(body: bytes, header_length: str | None, noun: str) -> Iterator[str]:
    """Format text verbatim; after the JSON part of a KServe v2 body, its binary tensors."""
    length = len(body)
    if header_length is not None and is_digits(header_length) and int(header_length) <= length:
        length = int(header_length)
    if length:
        yield _words(body[:length])
    if length < len(body):
        yield from _binary_tensors(body, length, noun)


def _binary_tensors(body: bytes, at: int, noun: str) -> Iterator[str]:
    try:
        rows = json.loads(body[:at])[noun]
        sizes = [(row.get("parameters") or {}).get("binary_data_size") for row in rows]
        for row, size in zip(rows, sizes, strict=True):
            if size is not None:
                data, at = body[at : at + size], at + size
                yield tensor_words(Tensor(row["name"], row["datatype"], tuple(row["shape"]), data))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        pass
    if at < len(body):
        yield _bytes_words(body[at:])


def tensor_words(tensor: Tensor) -> str:
    """Format a tensor: `<INPUT0: INT32 [16], 64 bytes: 0 1 2 ...>`."""
    from inferometer.model.numbers import DATATYPES, decode

    shape = f" [{','.join(map(str, tensor.shape))}]" if tensor.shape else ""
    name = f"{tensor.name}: " if tensor.name else ""
    head = f"{name}{tensor.datatype}{shape}, {len(tensor.data)} bytes"
    if tensor.datatype not in DATATYPES:
        return f"<{head}: {_shortened(_hex(tensor.data), len(tensor.data))}>"
    size = DATATYPES[tensor.datatype].size
    try:
        # Strings are decoded from the beginning, because each position depends on the ones before.
        values = decode(tensor.datatype, tensor.data[: FEW * size] if size else tensor.data)
    except ValueError:
        return f"<{head}: {_shortened(_hex(tensor.data), len(tensor.data))}>"
    return f"<{head}: {_shortened(map(_element, values[:FEW]), len(tensor.data) // size if size else len(values))}>"


def _element(value: Any) -> str:
    if isinstance(value, bytes):
        return json.dumps(value[:40].decode("utf-8", "replace") + ("..." if len(value) > 40 else ""))
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower()


def _bytes_words(data: bytes) -> str:
    return f"<{len(data)} bytes: {_shortened(_hex(data), len(data))}>"


def _hex(data: bytes) -> Iterator[str]:
    return (f"{byte:02x}" for byte in data[:FEW])


def _shortened(words: Iterable[str], count: int) -> str:
    return " ".join((*words, *(["..."] if count > FEW else [])))


def _words(data: bytes) -> str:
    """Format bytes as text if possible."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _bytes_words(data)
    if any(not (char.isprintable() or char in "\r\n\t") for char in text[:LONGEST]):
        return _bytes_words(data)
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}... ({len(data) - len(text[:LONGEST].encode())} more bytes)"


# --- protobuf messages


def _message_lines(setup: Setup, data: bytes, *, is_reply: bool) -> Iterator[str]:
    types = setup.service.message_types()
    if types is None:
        yield _bytes_words(data)
        return
    from google.protobuf.message import DecodeError

    kind = types[1 if is_reply else 0]
    try:
        message = kind.FromString(data)
    except DecodeError:
        yield _bytes_words(data)
        return
    yield f"{kind.DESCRIPTOR.full_name} ({len(data)} bytes)"
    yield from _entries(message, "  ")


def _entries(message: Any, indent: str) -> Iterator[str]:
    for field, value in message.ListFields():
        name = field.name
        described = _RAW.get(name)
        if field.full_name == "tensorflow.serving.TensorProto.tensor_content":
            yield f"{indent}{name}: {_content_words(message)}"
        elif described is not None:
            yield from (f"{indent}{name}: {words}" for words in _raw_tensors(message, described, value))
        elif isinstance(value, Mapping):
            for key in sorted(value):
                yield from _entry(f"{indent}{name}[{json.dumps(key)}]", value[key], indent)
        elif isinstance(value, str | bytes) or not isinstance(value, Sequence):
            yield from _entry(f"{indent}{name}", value, indent)
        elif field.message_type is not None:
            for part in value:
                yield from _entry(f"{indent}{name}", part, indent)
        else:
            yield f"{indent}{name}: {_shortened(map(_scalar, value[:FEW]), len(value))}"


def _content_words(message: Any) -> str:
    """Format the values of a TensorProto; unknown types are shown as bytes."""
    from inferometer.services.tfserving import tensor_of

    try:
        return tensor_words(tensor_of("", message))
    except (LookupError, ValueError):
        return _bytes_words(message.tensor_content)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if not hasattr(value, "ListFields"):
        yield f"{head}: {_scalar(value)}"
        return
    inner = list(_entries(value, f"{indent}  "))
    line = f"{head} {{ {' '.join(part.strip() for part in inner)} }}"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"{head} {{"
    yield from inner
    yield f"{indent}}}"


def _scalar(value: Any) -> str:
    if isinstance(value, bytes):
        return _bytes_words(value) if len(value) > FEW else json.dumps(value.decode("latin-1"))
    if isinstance(value, str):
        return json.dumps(value if len(value) <= LONGEST else value[:LONGEST] + "...", ensure_ascii=False)
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower()


def _raw_tensors(message: Any, described: str, contents: Sequence[bytes]) -> Iterator[str]:
    """Format raw tensors in the order of the descriptions that have no shared memory region."""
    rows = [row for row in getattr(message, described) if "shared_memory_region" not in row.parameters]
    for number, data in enumerate(contents):
        if number < len(rows):
            row = rows[number]
            yield tensor_words(Tensor(row.name, row.datatype, tuple(row.shape), data))
        else:
            yield _bytes_words(data)


# --- replies


def reply_text(setup: Setup, reply: SingleReply) -> str:
    """Format the reply: status, headers, and the body or the responses with their tensors."""
    connection = Connection(setup.traffic.wiring.endpoint, setup.options.headers)
    return without_key(_reply_text(setup, reply), connection.key)


def _reply_text(setup: Setup, reply: SingleReply) -> str:
    lines = [f"# reply after {reply.took_ns / NS_PER_MS:.3f} ms", reply.status]
    if reply.text:
        lines.append(reply.text)
    lines += _fields(reply.headers, set())
    lines.append("")
    if setup.traffic.wiring.protocol == "grpc":
        lines += _responses(
            [
                (time_ns, "\n".join(_message_lines(setup, data, is_reply=True)))
                for time_ns, data in reply.pieces
            ]
        )
        return _text(lines)
    headers = dict(reply.headers)
    if headers.get("content-type", "").startswith("text/event-stream"):
        events = _events(reply.pieces)
        lines += _responses([(time_ns, f"data: {_words(event.data)}") for time_ns, event in events])
        return _text(lines)
    lines += _body_lines(reply.body, headers.get(_LENGTH), "outputs")
    return _text(lines)


def _events(pieces: Iterable[tuple[int, bytes]]) -> list[tuple[int, Event]]:
    decoder = SseDecoder()
    try:
        return [(time_ns, event) for time_ns, data in pieces for event in decoder.receive(data)]
    except PeerError:
        return []


def _responses(found: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield the first few responses and the last one, each with its time if there are several."""
    if len(found) == 1:
        yield found[0][1]
        return
    for number, (time_ns, text) in enumerate(found, start=1):
        if number <= MOST or number == len(found):
            yield f"# response {number} of {len(found)} after {time_ns / NS_PER_MS:.3f} ms"
            yield text
        elif number == MOST + 1:
            yield f"# ... {len(found) - MOST - 1} more responses ..."


def _text(lines: Iterable[str]) -> str:
    return printable(redacted("\n".join(lines).replace("\r\n", "\n"), shows_bodies=True))
