"""Any gRPC service: a method of it, with messages written as JSON.

A unary call travels like any other. A method that streams gets all its messages at once, and the call lasts until the
server ends it; every message that comes back is a response with a time of its own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError

from inferometer.base.errors import PeerError, UsageError
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection
from inferometer.services.grpc_control import GrpcControl
from inferometer.services.http import OUTPUT, read_body
from inferometer.services.kind import Service
from inferometer.services.proto_schema import Method, Reflection, method_of_file, split_method
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import Traffic
from inferometer.wire.grpc import frame_message

MESSAGES = TensorSpec("message", "MESSAGE", (1,))
"""What a call sends; `dataset.payloads` reads it."""


class DynamicGrpc(Service):
    """One method at one address."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options
        self._reflection = Reflection(connection)
        self._method: Method | None = None

    def models(self) -> Sequence[str]:
        return self._reflection.services()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        """There is no model; what is measured is called after its method."""
        method = self._method = self._look_up()
        if self._options.streaming and method.is_unary:
            raise UsageError(f"the method {method.name} does not stream", remedy="leave out --streaming")
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
        """The reply as JSON."""
        method = self._known()
        try:
            reply = method.reply.FromString(body)
            text = MessageToJson(reply, indent=None, descriptor_pool=method.pool)
        except (DecodeError, TypeError) as error:
            raise PeerError(f"the reply is no {method.reply.DESCRIPTOR.full_name} ({error})") from error
        return {OUTPUT.name: text.encode()}

    def traffic(
        self, model: ModelSpec, steps: Sequence[Sequence[Tensor]], placement: Placement | None = None
    ) -> Traffic:
        method, options = self._known(), self._options
        calls = [self._messages(number, step) for number, step in enumerate(steps)]
        findings: tuple[str, ...] = ()
        if options.bodies:
            calls = [[self._parse(read_body(text), f"--body {text}")] for text in options.bodies]
        elif not any(steps):
            findings = (f"No data is given: an empty {method.request.DESCRIPTOR.full_name} is sent.",)
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

    def _look_up(self) -> Method:
        options = self._options
        split_method(options.grpc_method)
        if options.proto is None:
            return self._reflection.method(options.grpc_method)
        return method_of_file(options.grpc_method, Path(options.proto), [*map(Path, options.proto_paths)])

    def _known(self) -> Method:
        if self._method is None:  # a result is read again later: nobody has asked yet
            self._method = self._look_up()
        return self._method

    def _messages(self, number: int, step: Sequence[Tensor]) -> list[bytes]:
        method, where = self._known(), f"call {number} of the data"
        messages = [
            self._parse(tensor.data, where)
            if tensor.datatype == "JSON"
            else self._checked(tensor.data, where)
            for tensor in step
        ]
        if len(messages) > 1 and not method.takes_stream:
            raise UsageError(
                f"{where} has {len(messages)} messages, and the method {method.name} takes one",
                remedy="give each call one message",
            )
        return messages

    def _parse(self, text: bytes, where: str) -> bytes:
        method = self._known()
        name = method.request.DESCRIPTOR.full_name
        try:
            message = Parse(text, method.request(), descriptor_pool=method.pool)
            return bytes(message.SerializeToString())
        except (ParseError, SystemError, ValueError, RecursionError) as error:
            known = ", ".join(field.name for field in method.request.DESCRIPTOR.fields)
            raise UsageError(
                f"{where} is no {name}: {' '.join(str(error).split())}", remedy=f"its fields are {known}"
            ) from error

    def _checked(self, data: bytes, where: str) -> bytes:
        request = self._known().request
        try:
            request.FromString(data)
        except DecodeError as error:
            raise UsageError(f"{where} is no {request.DESCRIPTOR.full_name}: {error}") from error
        return data
