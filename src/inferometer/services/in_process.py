"""Triton in a process of ours: requests are handed over by address, and no network is in the way."""

from collections.abc import Sequence

from inferometer.base.errors import UsageError
from inferometer.model.spec import ModelSpec
from inferometer.model.tensor import Tensor
from inferometer.services.discovery import Document
from inferometer.services.endpoint import Connection
from inferometer.services.shared_memory import Placement
from inferometer.services.traffic import IN_PROCESS, Traffic, Wiring
from inferometer.services.triton_grpc import render_request
from inferometer.services.triton_http import TritonHttp
from inferometer.services.validation import grpc_outputs


class InProcess:
    """The address is that of the control calls (in_process_control.py)."""

    def __init__(self, connection: Connection, parameters: tuple[tuple[str, str, str], ...]) -> None:
        self._control = TritonHttp(connection)
        self._endpoint = connection.endpoint
        self._parameters = parameters

    def server(self) -> Document:
        return self._control.server()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> ModelSpec:
        return self._control.describe(name, version, called)

    def models(self) -> list[str]:
        return self._control.models()

    def statistics(self, model: ModelSpec) -> list[Document]:
        return self._control.statistics(model)

    def read_outputs(self, body: bytes, header_length: int | None) -> dict[str, bytes]:
        """The raw values in the message that the worker makes of a response."""
        return grpc_outputs(body)

    def traffic(
        self, model: ModelSpec, steps: Sequence[Sequence[Tensor]], placement: Placement | None = None
    ) -> Traffic:
        """Every request as a message, which the worker takes apart once."""
        if placement is not None:
            raise UsageError(
                "a Triton in this process reads inputs where they are: shared memory has nothing to save",
                remedy="leave out --shared-memory",
            )
        requests = tuple(
            render_request(model, [(tensor, None) for tensor in step], None, self._parameters)
            for step in steps
        )
        wiring = Wiring(self._endpoint, protocol=IN_PROCESS, is_streaming=model.is_decoupled)
        return Traffic(wiring, requests)
