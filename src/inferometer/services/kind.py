"""What the rest of the program needs of a service kind: a row of `KINDS`, and the service that the row opens.

A kind says what to send and what a reply means; it never opens a socket for load and never looks at a clock. How its
bytes travel is left to the links of `load`: the `Wiring` of its traffic names the protocol, and, where more than the
status of a reply counts, the `ReplyReader` that the worker asks about every reply.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from inferometer.base.errors import MissingError
from inferometer.options.option import Rule
from inferometer.options.options import Options

if TYPE_CHECKING:  # the command line reads the table and must not wait for what services need
    from inferometer.model.spec import ModelSpec, Tensor
    from inferometer.services.endpoint import Connection
    from inferometer.services.shared_memory import Placement
    from inferometer.services.traffic import Traffic

Document = Mapping[str, Any]

RESPONSE = "response"
"""The one output of a service without tensors: whatever comes back."""


class Service(Protocol):
    """A server of some kind at one address. Kinds inherit what servers without such a call answer."""

    def server(self) -> Document:
        """What it says of itself: `name`, `version`, `extensions`; with "statistics" among these it has counters.

        MissingError where it says nothing.
        """
        raise MissingError("such servers say nothing of themselves")

    def models(self) -> Sequence[str]:
        """Names of the models it has, as far as it tells."""
        return ()

    def describe(self, name: str, version: str, called: Sequence[tuple[str, str]]) -> "ModelSpec":
        """The model; its inputs tell which data is read or generated. `called` are models that its code calls."""
        ...

    def traffic(
        self, model: "ModelSpec", steps: "Sequence[Sequence[Tensor]]", placement: "Placement | None" = None
    ) -> "Traffic":
        """Every request, rendered once, and how it travels; what is placed in shared memory is only pointed at."""
        ...

    def read_outputs(self, body: bytes, header_length: int | None) -> Mapping[str, bytes]:
        """The raw values in a response that was kept, by the names of the model's outputs."""
        return {RESPONSE: body}

    def statistics(self, model: "ModelSpec") -> Sequence[Document]:
        """The server's counters of the model, asked for only where `server` announces them."""
        return ()


@runtime_checkable
class Answering(Protocol):
    """A service whose replies hold tensors, which can be compared."""

    def infer(self, request: bytes) -> "Mapping[str, Tensor]":
        """The outputs that come back for a rendered request, by name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A row: a service kind and what can be asked of it."""

    classes: Mapping[str, str]  # by protocol: module and class of the service
    ports: Mapping[str, int]  # by protocol: where such a server listens if no address says otherwise
    title: str  # in sentences
    needs_model: bool = True
    is_asked: bool = True  # `describe` asks the server, so that one of another kind shows before the load
    is_async: bool = False  # callers of such servers do not wait for each other
    has_statistics: bool = False  # such servers usually count what they do: it is said when one does not
    has_tokens: bool = False  # answers are text, counted in tokens
    rules: tuple[Rule, ...] = ()  # checked only when this kind is asked for
    refused: tuple[str, ...] = ()  # fields of options that have no meaning here

    def open(self, connection: "Connection", options: Options) -> Service:
        """The service; its module is imported only now, as most runs need one kind."""
        module, name = self.classes[options.protocol].split(":")
        service: Service = getattr(import_module(f"{__package__}.{module}"), name)(connection, options)
        return service
