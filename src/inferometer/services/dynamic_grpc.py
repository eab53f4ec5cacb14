"""A method of any gRPC service, with messages written as JSON.

A unary call is sent like any other. A streaming method gets all its messages at once, and the call lasts until the
server ends it; every message received is a response with its own time.

Message types come from a .proto file or from server reflection: a stream on which the client
may send many queries. Here each query is a separate call, which is sufficient before the load
and needs no stream. Servers offer reflection under one of two names.
"""

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError

from inferometer.base.confined import check_path
from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.interpreter import module_command
from inferometer.base.reading import DESCRIPTION, check_file, read_file
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.grpc_control import GrpcControl
from inferometer.services.http import OUTPUT, read_body
from inferometer.services.kind import Service
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import Steps, Traffic
from inferometer.wire.grpc import frame_message
from inferometer.wire.protobuf import fields, string_field

MESSAGES = TensorSpec("message", "MESSAGE", (1,))
"""Input of a call; `dataset.payloads` reads it."""

REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
BY_FILE, BY_SYMBOL, LIST_SERVICES = 3, 4, 7  # fields of a ServerReflectionRequest
FILES, SERVICES, ERROR = 4, 6, 7  # of a ServerReflectionResponse
ERROR_TEXT = 2
COMPILE_S = 60
DEEPEST = 100  # nesting depth of imports
DESCRIPTOR_SETS = (".pb", ".protoset", ".desc", ".binpb")

# Files included in every protobuf installation; servers often omit them.
_COMMON = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct"),
    *("timestamp", "type", "wrappers"),
)

File = descriptor_pb2.FileDescriptorProto
Fetch = Callable[[str], Iterable[File]]
"""Function from the name of an imported file to that file, possibly with others."""


@frozen
class Method:
    """A method of a service, with the classes of its request and reply messages."""

    service: str
    name: str
    request: Any
    reply: Any
    takes_stream: bool
    gives_stream: bool
    pool: descriptor_pool.DescriptorPool

    @property
    def is_unary(self) -> bool:
        return not (self.takes_stream or self.gives_stream)


def split_method(text: str) -> tuple[str, str]:
    """Split `package.Service/Method`, also with a leading slash or with a dot before the method."""
    service, _, name = text.strip("/").rpartition("/" if "/" in text.strip("/") else ".")
    if not service or not name or "/" in service:
        raise UsageError(
            f"{option_name('--grpc-method')} '{text}' does not name a method",
            remedy="write it like package.Service/Method",
        )
    return service, name


def method_of_file(service: str, name: str, path: Path, folders: Sequence[Path]) -> Method:
    """Return the method from a .proto file or a compiled descriptor set."""
    for place in (path, *folders):
        check_path(place)
    files = _read_set(path) if path.suffix in DESCRIPTOR_SETS else _compile(path, folders)
    known = sorted(f"{file.package}.{row.name}".strip(".") for file in files for row in file.service)
    if service not in known:
        raise UsageError(f"{path} has no service '{service}'", remedy=_choose(known))
    return _find(_pool(files, lambda missing: ()), service, name, str(path))


def _read_set(path: Path) -> list[File]:
    try:
        return list(
            descriptor_pb2.FileDescriptorSet.FromString(
                read_file(path, DESCRIPTION, option_name("--proto"))
            ).file
        )
    except DecodeError as error:
        raise UsageError(
            f"{option_name('--proto')} {path} is not a descriptor set",
            remedy="make one with protoc --include_imports --descriptor_set_out, or give the .proto file",
        ) from error


def _compile(path: Path, folders: Sequence[Path]) -> list[File]:
    check_file(path, DESCRIPTION, option_name("--proto"))
    includes = [f"--proto_path={folder}" for folder in dict.fromkeys((*folders, path.parent))]
    with tempfile.TemporaryDirectory(prefix="inferometer-proto-") as scratch:
        made = Path(scratch) / "set.pb"
        command = [*_compiler(), *includes, "--include_imports", f"--descriptor_set_out={made}", str(path)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=COMPILE_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UsageError(
                f"{option_name('--proto')} {path} did not compile within {COMPILE_S} s"
            ) from error
        if done.returncode:
            raise UsageError(
                f"{option_name('--proto')} {path} cannot be compiled: {' '.join(done.stderr.split())}",
                remedy=f"give the root folders of its imports with {option_name('--proto-path')}",
            )
        return _read_set(made)


def _compiler() -> list[str]:
    if find_spec("grpc_tools") is not None:
        # grpc_tools includes protobuf's common files, such as google/protobuf/timestamp.proto.
        common = Path(str(import_module("grpc_tools").__file__)).parent / "_proto"
        return module_command("grpc_tools.protoc", f"--proto_path={common}")
    found = which("protoc")
    if found is None:
        raise UsageError(
            "a .proto file needs a protobuf compiler, but none is installed",
            remedy="pip install 'inferometer[grpc]', or give a compiled descriptor set (.pb)",
        )
    return [found]


# --- server reflection


class Reflection:
    """Services of a server from its reflection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._controls = [GrpcControl(connection, name) for name in REFLECTION]

    def services(self) -> list[str]:
        reply = self._ask(LIST_SERVICES, "*")
        return sorted(_text(row, 1) for row in _parts(_part(reply, SERVICES), 1))

    def method(self, service: str, name: str) -> Method:
        try:
            files = self._files(BY_SYMBOL, service)
        except UsageError as error:
            raise UsageError(error.message, remedy=_choose(self.services())) from error
        pool = _pool(files, lambda missing: self._files(BY_FILE, missing))
        return _find(pool, service, name, self._connection.endpoint.authority)

    def _files(self, field: int, name: str) -> list[File]:
        reply = self._ask(field, name)
        failure = _part(reply, ERROR)
        if failure:
            where = self._connection.endpoint.authority
            raise UsageError(f"{where} does not know '{name}' ({_text(failure, ERROR_TEXT)})")
        try:
            return [File.FromString(bytes(row)) for row in _parts(_part(reply, FILES), 1)]
        except DecodeError as error:
            raise PeerError(f"the server's reflection describes '{name}' with a broken file") from error

    def _ask(self, field: int, text: str) -> memoryview:
        """Return the answer, and keep using the reflection service that gave the first answer."""
        question = string_field(field, text)
        while True:
            try:
                return memoryview(self._controls[0].call_bytes("ServerReflectionInfo", question))
            except MissingError as error:
                if len(self._controls) == 1:
                    raise UsageError(
                        f"{self._connection.endpoint.authority} has no reflection, so its methods are unknown",
                        remedy=f"give the .proto file of the service with {option_name('--proto')}",
                    ) from error
                del self._controls[0]


def _parts(message: memoryview, number: int) -> Iterator[memoryview]:
    for found, value in fields(message):
        if found == number and isinstance(value, memoryview):
            yield value


def _part(message: memoryview, number: int) -> memoryview:
    return next(_parts(message, number), memoryview(b""))


def _text(message: memoryview, number: int) -> str:
    return bytes(_part(message, number)).decode("utf-8", "replace")


# --- message classes from files


def _pool(files: Iterable[File], fetch: Fetch) -> descriptor_pool.DescriptorPool:
    """Return a pool with all files and their imports, each added after its dependencies."""
    known = {file.name: file for file in files}
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in added:
            return
        if not isinstance(name, str):  # names that are not UTF-8 are bytes
            raise PeerError(f"a file imports {name!r:.80}, which is not a file name")
        if name in above or len(above) > DEEPEST:
            raise PeerError(
                f"the file '{name}' imports itself, or its imports are nested more than {DEEPEST} levels deep"
            )
        if name not in known:
            known.update({file.name: file for file in (_common(name) or fetch(name))})
        if name not in known:
            raise PeerError(
                f"'{above[-1]}' imports '{name}', which is not available",
                remedy=f"give {option_name('--proto')}",
            )
        for needed in known[name].dependency:
            add(needed, (*above, name))
        try:
            pool.AddSerializedFile(known[name].SerializeToString())
        except (TypeError, ValueError) as error:
            raise PeerError(f"the file '{name}' is invalid: {error}") from error
        added.add(name)

    for name in list(known):
        add(name, ())
    return pool


def _common(name: str) -> list[File]:
    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem not in _COMMON:
        return []
    module = import_module(f"google.protobuf.{stem}_pb2")
    return [File.FromString(module.DESCRIPTOR.serialized_pb)]


def _find(pool: descriptor_pool.DescriptorPool, service: str, name: str, origin: str) -> Method:
    try:
        described = pool.FindServiceByName(service)
    except KeyError as error:
        raise UsageError(f"{origin} has no service '{service}'") from error
    method = described.methods_by_name.get(name)
    if method is None:
        raise UsageError(
            f"service '{service}' has no method '{name}'",
            remedy=_choose(sorted(described.methods_by_name)),
        )
    return Method(
        service=service,
        name=name,
        request=message_factory.GetMessageClass(method.input_type),
        reply=message_factory.GetMessageClass(method.output_type),
        takes_stream=method.client_streaming,
        gives_stream=method.server_streaming,
        pool=pool,
    )


def _choose(names: Sequence[str]) -> str:
    return f"it has {', '.join(names)}" if names else "check the name"


# --- the service


class DynamicGrpc(Service):
    """A gRPC method of the server at one address."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._reflection = Reflection(connection)

    def models(self) -> Sequence[str]:
        return self._reflection.services()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """Describe the method as a model named after it."""
        method = self._method
        if self._options.streaming and method.is_unary:
            raise UsageError(
                f"the method {method.name} does not stream", remedy=f"leave out {option_name('--streaming')}"
            )
        return ModelSpec(
            name=name or f"{method.service}/{method.name}",
            version=version,
            inputs=(MESSAGES,),
            outputs=(OUTPUT,),
            config={
                "request": method.request.DESCRIPTOR.full_name,
                "reply": method.reply.DESCRIPTOR.full_name,
                "takes_stream": method.takes_stream,
                "gives_stream": method.gives_stream,
            },
        )

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        """Return the reply as JSON."""
        method = self._method
        try:
            reply = method.reply.FromString(body)
            text = MessageToJson(reply, indent=None, descriptor_pool=method.pool)
        except (DecodeError, TypeError) as error:
            raise PeerError(f"the reply is not a {method.reply.DESCRIPTOR.full_name} ({error})") from error
        return {OUTPUT.name: text.encode()}

    def traffic(self, model: ModelSpec, steps: Steps, placement: Placement | None = None) -> Traffic:
        method, options = self._method, self._options
        calls = [self._messages(number, step) for number, step in enumerate(steps)]
        findings: tuple[str, ...] = ()
        if options.bodies:
            calls = [[self._parse(read_body(text), option_name("--body", text))] for text in options.bodies]
        elif not any(steps):
            findings = (f"No data given: sending an empty {method.request.DESCRIPTOR.full_name}.",)
            calls = [[b""]]
        if method.is_unary:
            requests = tuple(messages[0] for messages in calls)
        else:
            requests = tuple(
                b"".join(part for message in messages for part in frame_message(message, options.compression))
                for messages in calls
            )
        control = GrpcControl(self._connection, method.service)
        wiring = control.wiring(
            method.name,
            options,
            is_whole_calls=not method.is_unary,
            has_one_reply=not method.gives_stream,
        )
        return Traffic(wiring, requests, findings=findings)

    def message_types(self) -> tuple[Any, Any]:
        return self._method.request, self._method.reply

    @cached_property
    def _method(self) -> Method:
        """Look up the method, for a run and again when a result is read later."""
        options = self._options
        service, name = split_method(options.grpc_method)
        if options.proto is None:
            return self._reflection.method(service, name)
        return method_of_file(service, name, Path(options.proto), [*map(Path, options.proto_paths)])

    def _messages(self, number: int, step: Sequence[Tensor]) -> list[bytes]:
        method, where = self._method, f"call {number} of the data"
        messages = [
            self._parse(tensor.data, where)
            if tensor.datatype == "JSON"
            else self._checked(tensor.data, where)
            for tensor in step
        ]
        if len(messages) > 1 and not method.takes_stream:
            raise UsageError(
                f"{where} has {len(messages)} messages, but the method {method.name} takes one",
                remedy="give each call one message",
            )
        return messages

    def _parse(self, text: bytes, where: str) -> bytes:
        request = self._method.request
        try:
            message = Parse(text, request(), descriptor_pool=self._method.pool)
            return bytes(message.SerializeToString())
        except (ParseError, SystemError, ValueError, RecursionError) as error:
            known = ", ".join(field.name for field in request.DESCRIPTOR.fields)
            raise UsageError(
                f"{where} is not a {request.DESCRIPTOR.full_name}: {' '.join(str(error).split())}",
                remedy=f"its fields are {known}",
            ) from error

    def _checked(self, data: bytes, where: str) -> bytes:
        request = self._method.request
        try:
            request.FromString(data)
        except DecodeError as error:
            raise UsageError(f"{where} is not a {request.DESCRIPTOR.full_name}: {error}") from error
        return data
