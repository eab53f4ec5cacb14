"""libtritonserver in this process, through ctypes; this file contains every signature and every lifetime.

    library --> InProcessServer(settings) --> InProcessRequest(message) --> server.infer(request)
                                          ^                     |  threads of the library
                                          |                     v
                                 reused after its end   on_response(number, response, is_final)
                                                        on_release(number)

Ownership. The client owns a request and may send it again after both its final response and its release; its input data
must not move until then. The client owns a response from the callback until `delete`, and so its outputs, which are in
buffers of the allocator: `delete` returns them for reuse. Errors are deleted as soon as their text is read. Callbacks
run on the library's threads: they append to a list and return, and must not raise.

The library keeps each model alive as long as a request refers to it, and a server ends only without live models. The
process with a server is meant to be terminated as a whole (server/in_process.py).
"""

import ctypes
import json
import os
from collections import defaultdict
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import decode_json
from inferometer.options.names import option_name
from inferometer.services.kind import Document
from inferometer.services.kserve import load_messages
from inferometer.wire import grpc

ENVIRONMENT = "INFEROMETER_IN_PROCESS"
_EXPLICIT = 2  # model control mode
_ANY_VERSION = -1
_CPU = 0
_FINAL = 1
_SEQUENCE_START, _SEQUENCE_END = 1, 2
CONFIG_VERSION = 1
READY_ONLY = 1
_NO_GPU_BELOW = 6.0  # compute capability

_PARAMETERS = {"string_param": "String", "int64_param": "Int", "bool_param": "Bool"}

# TRITONSERVER_Error_Code, as gRPC codes.
_CODES = (
    grpc.UNKNOWN,
    grpc.INTERNAL,
    grpc.NOT_FOUND,
    grpc.INVALID_ARGUMENT,
    grpc.UNAVAILABLE,
    grpc.UNIMPLEMENTED,
    grpc.ALREADY_EXISTS,
    grpc.CANCELLED,
)

_P = c_void_p
_Callback = CFUNCTYPE(None, _P, c_uint32, _P)
_Allocate = CFUNCTYPE(
    *(_P, _P, c_char_p, c_size_t, c_int, c_int64, _P), *map(POINTER, (_P, _P, c_int, c_int64))
)
_GiveBack = CFUNCTYPE(_P, _P, _P, _P, c_size_t, c_int, c_int64)

_OUTPUT: tuple[Any, ...] = (c_char_p, c_int, _P, c_uint64, _P, c_size_t, c_int, c_int64, _P)
"""Fields of a response's output: name, datatype, shape, rank, data, its size, memory type, device, allocator data."""

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ApiVersion": (POINTER(c_uint32), POINTER(c_uint32)),
    "ServerOptionsNew": (POINTER(_P),),
    "ServerOptionsSetModelRepositoryPath": (_P, c_char_p),
    "ServerOptionsSetModelControlMode": (_P, c_int),
    "ServerOptionsSetModelLoadRetryCount": (_P, c_uint32),
    "ServerOptionsSetStartupModel": (_P, c_char_p),
    "ServerOptionsSetStrictModelConfig": (_P, c_bool),
    "ServerOptionsSetBackendDirectory": (_P, c_char_p),
    "ServerOptionsSetBackendConfig": (_P, c_char_p, c_char_p, c_char_p),
    "ServerOptionsSetCacheDirectory": (_P, c_char_p),
    "ServerOptionsSetMinSupportedComputeCapability": (_P, c_double),
    "ServerOptionsSetLogInfo": (_P, c_bool),
    "ServerNew": (POINTER(_P), _P),
    "ServerMetadata": (_P, POINTER(_P)),
    "ServerModelMetadata": (_P, c_char_p, c_int64, POINTER(_P)),
    "ServerModelConfig": (_P, c_char_p, c_int64, c_uint32, POINTER(_P)),
    "ServerModelStatistics": (_P, c_char_p, c_int64, POINTER(_P)),
    "ServerModelIndex": (_P, c_uint32, POINTER(_P)),
    "MessageSerializeToJson": (_P, POINTER(_P), POINTER(c_size_t)),
    "MessageDelete": (_P,),
    "ResponseAllocatorNew": (POINTER(_P), _Allocate, _GiveBack, _P),
    "InferenceRequestNew": (POINTER(_P), _P, c_char_p, c_int64),
    "InferenceRequestAddInput": (_P, c_char_p, c_int, POINTER(c_int64), c_uint64),
    "InferenceRequestAppendInputData": (_P, c_char_p, _P, c_size_t, c_int, c_int64),
    "InferenceRequestAddRequestedOutput": (_P, c_char_p),
    "InferenceRequestSetFlags": (_P, c_uint32),
    "InferenceRequestSetCorrelationId": (_P, c_uint64),
    "InferenceRequestSetStringParameter": (_P, c_char_p, c_char_p),
    "InferenceRequestSetIntParameter": (_P, c_char_p, c_int64),
    "InferenceRequestSetBoolParameter": (_P, c_char_p, c_bool),
    "InferenceRequestSetReleaseCallback": (_P, _Callback, _P),
    "InferenceRequestSetResponseCallback": (_P, _P, _P, _Callback, _P),
    "InferenceRequestCancel": (_P,),
    "ServerInferAsync": (_P, _P, _P),
    "InferenceResponseError": (_P,),
    "InferenceResponseDelete": (_P,),
    "InferenceResponseOutputCount": (_P, POINTER(c_uint32)),
    "InferenceResponseOutput": (_P, c_uint32, *map(POINTER, _OUTPUT)),
}  # each returns an error, or null on success


@frozen
class InProcessSettings:
    """Settings of a server in this process; passed in an environment variable."""

    library: str  # libtritonserver.so
    backends: str
    caches: str
    repository: str
    models: tuple[str, ...]
    shared_memory_prefix: str  # of the files that its python backend leaves in /dev/shm

    def to_environment(self) -> dict[str, str]:
        return {ENVIRONMENT: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> "InProcessSettings":
        document = json.loads(os.environ[ENVIRONMENT])
        return cls(**{**document, "models": tuple(document["models"])})


class TritonError(Exception):
    """An error reported by the library."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code  # of gRPC
        self.text = text


class _Library:
    """Functions of the library, by name without the common prefix; each raises TritonError."""

    def __init__(self, settings: InProcessSettings) -> None:
        self._library = _load(settings)
        self.functions = {
            name: self._function(name, c_void_p, *arguments) for name, arguments in _SIGNATURES.items()
        }
        self._code = self._function("ErrorCode", c_int, _P)
        self._message = self._function("ErrorMessage", c_char_p, _P)
        self._delete_error = self._function("ErrorDelete", None, _P)
        self.datatype = self._function("StringToDataType", c_int, c_char_p)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        try:
            function = getattr(self._library, f"TRITONSERVER_{name}")
        except AttributeError:
            raise LocalError(
                f"the Triton library has no TRITONSERVER_{name}", remedy="use a newer Triton"
            ) from None
        function.restype, function.argtypes = result, arguments
        return function

    def call(self, name: str, *arguments: Any) -> None:
        self.check(self.functions[name](*arguments))

    def check(self, error: int | None, *, is_ours: bool = True) -> None:
        if error:
            failure = TritonError(_CODES[self._code(error)], self._message(error).decode(errors="replace"))
            if is_ours:
                self._delete_error(error)
            raise failure


def _load(settings: InProcessSettings) -> ctypes.CDLL:
    """Load the library. Its dependencies may be next to it, where the loader does not look: each round loads those
    whose own dependencies are loaded."""
    waiting = sorted(Path(settings.library).resolve().parent.glob("*.so*"))
    while (refused := [path for path in waiting if not _loads(path)]) and len(refused) < len(waiting):
        waiting = refused
    try:
        return ctypes.CDLL(settings.library, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise UsageError(
            f"the Triton library '{settings.library}' cannot be loaded: {error}",
            remedy=f"check {option_name('--triton-server-directory')}, or leave it out to use the library "
            "of nvidia-pytriton",
        ) from None


def _loads(path: Path) -> bool:
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


OnResponse = Callable[[int, int | None, bool], None]
"""Callback (number of the request, response or None, whether it is the last) on a thread of the library."""


class InProcessServer:
    """A started server."""

    def __init__(
        self, settings: InProcessSettings, on_response: OnResponse, on_release: Callable[[int], None]
    ) -> None:
        self._library = library = _Library(settings)
        self._buffers: dict[int, ctypes.Array[Any]] = {}  # by address
        self._free: defaultdict[int, list[int]] = defaultdict(list)  # addresses by size
        self.infer = library.functions["ServerInferAsync"]
        self.check = library.check
        self._error_of = library.functions["InferenceResponseError"]
        self.handle = self._start(settings)
        self._allocator = c_void_p()
        self._allocate, self._give_back = _Allocate(self._allocated), _GiveBack(self._given_back)
        library.call("ResponseAllocatorNew", byref(self._allocator), self._allocate, self._give_back, None)
        self._on_response = _Callback(
            lambda response, flags, number: on_response(number, response, bool(flags & _FINAL))
        )
        self._on_release = _Callback(lambda request, flags, number: on_release(number))

    def _start(self, settings: InProcessSettings) -> c_void_p:
        call, options, handle = self._library.call, c_void_p(), c_void_p()
        call("ServerOptionsNew", byref(options))
        call("ServerOptionsSetModelRepositoryPath", options, settings.repository.encode())
        call("ServerOptionsSetModelControlMode", options, _EXPLICIT)
        # Triton does not initialize the count: without this, a failing model may be loaded again and again.
        call("ServerOptionsSetModelLoadRetryCount", options, 0)
        for model in settings.models:
            call("ServerOptionsSetStartupModel", options, model.encode())
        call("ServerOptionsSetStrictModelConfig", options, True)
        call("ServerOptionsSetBackendDirectory", options, settings.backends.encode())
        prefix = settings.shared_memory_prefix.encode()
        call("ServerOptionsSetBackendConfig", options, b"python", b"shm-region-prefix-name", prefix)
        if settings.caches:
            call("ServerOptionsSetCacheDirectory", options, settings.caches.encode())
        call("ServerOptionsSetMinSupportedComputeCapability", options, _NO_GPU_BELOW)
        try:
            call("ServerNew", byref(handle), options)
        except TritonError as error:
            raise UsageError(
                f"Triton cannot start in this process: {error.text}",
                remedy=f"check that the repository '{settings.repository}' contains {', '.join(settings.models)}",
            ) from None
        return handle

    def document(self, function: str, *arguments: Any) -> Document:
        """Return the server's description of itself or of a model."""
        message, start, size = c_void_p(), c_void_p(), c_size_t()
        self._library.call(function, self.handle, *arguments, byref(message))
        try:
            self._library.call("MessageSerializeToJson", message, byref(start), byref(size))
            document: Document = decode_json(ctypes.string_at(start.value or 0, size.value))
        finally:
            self._library.call("MessageDelete", message)
        return document

    # --- requests

    def request(self, message: bytes | memoryview, number: int) -> "InProcessRequest":
        """Convert a ModelInferRequest for the library; `number`, from 1, is passed to its callbacks."""
        asked = load_messages().ModelInferRequest.FromString(bytes(message))
        handle, call = c_void_p(), self._library.call
        model, version = asked.model_name.encode(), version_number(asked.model_version)
        call("InferenceRequestNew", byref(handle), self.handle, model, version)
        data = tuple(bytes(raw) for raw in asked.raw_input_contents)
        for tensor, raw in zip(asked.inputs, data, strict=True):
            name, shape = tensor.name.encode(), (c_int64 * len(tensor.shape))(*tensor.shape)
            datatype = self._library.datatype(tensor.datatype.encode())
            call("InferenceRequestAddInput", handle, name, datatype, shape, len(tensor.shape))
            address = ctypes.cast(c_char_p(raw), c_void_p)
            call("InferenceRequestAppendInputData", handle, name, address, len(raw), _CPU, 0)
        for output in asked.outputs:
            call("InferenceRequestAddRequestedOutput", handle, output.name.encode())
        for name, parameter in asked.parameters.items():
            kind = parameter.WhichOneof("parameter_choice")
            value = getattr(parameter, kind)
            value = value.encode() if isinstance(value, str) else value
            call(f"InferenceRequestSet{_PARAMETERS[kind]}Parameter", handle, name.encode(), value)
        call("InferenceRequestSetReleaseCallback", handle, self._on_release, number)
        call("InferenceRequestSetResponseCallback", handle, self._allocator, None, self._on_response, number)
        return InProcessRequest(number, handle, data)

    def mark(self, request: "InProcessRequest", sequence_id: int, *, is_start: bool, is_end: bool) -> None:
        """Mark the request as part of a sequence."""
        flags = (_SEQUENCE_START if is_start else 0) | (_SEQUENCE_END if is_end else 0)
        self._library.call("InferenceRequestSetCorrelationId", request.handle, sequence_id)
        self._library.call("InferenceRequestSetFlags", request.handle, flags)

    def cancel(self, request: "InProcessRequest") -> None:
        self._library.call("InferenceRequestCancel", request.handle)

    # --- responses

    def outcome(self, response: int) -> TritonError | None:
        try:
            self._library.check(self._error_of(response), is_ours=False)
        except TritonError as error:
            return error
        return None

    def message(self, response: int) -> bytes:
        """Build a ModelInferResponse with the names and values of the outputs."""
        reply = load_messages().ModelInferResponse()
        for index in range(self.output_count(response)):
            name, data = self._output(response, index)
            reply.outputs.add(name=name)
            reply.raw_output_contents.append(data)
        return bytes(reply.SerializeToString())

    def _output(self, response: int, index: int) -> tuple[str, bytes]:
        fields = [kind() for kind in _OUTPUT]
        self._library.call("InferenceResponseOutput", response, index, *map(byref, fields))
        name, _, _, _, start, size, where, _, _ = (row.value for row in fields)
        if where != _CPU:
            raise PeerError("an output is in GPU memory, which the client cannot read")
        return (name or b"").decode(), ctypes.string_at(start or 0, size) if size else b""

    def output_count(self, response: int) -> int:
        count = c_uint32()
        self._library.call("InferenceResponseOutputCount", response, byref(count))
        return count.value

    def delete(self, response: int) -> None:
        self._library.call("InferenceResponseDelete", response)

    # --- callbacks of the allocator

    def _allocated(
        self, allocator: Any, name: Any, size: int, kind: int, device: int, user: Any,
        buffer: Any, buffer_user: Any, actual_kind: Any, actual_device: Any,
    ) -> None:  # fmt: skip
        address = None
        if size:
            free = self._free[size]
            if free:
                address = free.pop()
            else:
                made = ctypes.create_string_buffer(size)
                address = ctypes.addressof(made)
                self._buffers[address] = made
        buffer[0], buffer_user[0], actual_kind[0], actual_device[0] = address, None, _CPU, 0

    def _given_back(
        self, allocator: Any, buffer: int | None, user: Any, size: int, kind: int, device: int
    ) -> None:
        if buffer is not None:
            self._free[size].append(buffer)


@frozen
class InProcessRequest:
    """A request that can be sent repeatedly, one send at a time."""

    number: int
    handle: c_void_p
    data: tuple[bytes, ...]  # must not move


def version_number(text: str) -> int:
    """Convert a model version for the library."""
    if not text:
        return _ANY_VERSION
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"the model version '{text}' is not a number", remedy=f"give one with {option_name('-x')}"
        ) from None
