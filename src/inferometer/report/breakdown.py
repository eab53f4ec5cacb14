"""Where one request's time went, from the client's send to its last byte: pieces that add up to the latency."""

from dataclasses import dataclass

from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.report.server import compute_ns, unique, workers
from inferometer.stats.measurement import Measurement

WAIT = "waiting to be sent"
SEND = "client send"
NETWORK = "network and protocol"
QUEUE = "queue"
CACHE = "cache"
INPUT = "compute input"
INFER = "compute infer"
OUTPUT = "compute output"
OVERHEAD = "server overhead"
RECEIVE = "client receive"
OWN = "own work"


@dataclass(frozen=True, slots=True)
class Piece:
    """Nanoseconds of one request, on average."""

    name: str
    ns: float


@dataclass(frozen=True, slots=True)
class ModelTime:
    """One model that works for the request; its pieces are per request of the top model."""

    name: str
    calls: float
    pieces: tuple[Piece, ...]
    batch: float  # inferences per execution, as formed

    @property
    def ns(self) -> float:
        return sum(piece.ns for piece in self.pieces)


def level_pieces(measurement: Measurement) -> tuple[Piece, ...]:
    """In the order in which they pass; those that took no time are left out."""
    latency, service = float(measurement.latency.mean_ns), float(measurement.service.mean_ns)
    client = measurement.send_ns + measurement.receive_ns
    inside = server_pieces(measurement.server)
    inside_ns = _server_ns(measurement.server, inside)
    rows = (
        Piece(WAIT, max(0.0, latency - service)),
        Piece(SEND, float(measurement.send_ns)),
        Piece(NETWORK if inside else "network and server", max(0.0, service - client - inside_ns)),
        *inside,
        Piece(RECEIVE, float(measurement.receive_ns)),
    )
    return tuple(row for row in rows if row.ns > 0)


def _server_ns(model: ModelStatistics | None, inside: tuple[Piece, ...]) -> float:
    """Of steps that run side by side, the sum is more than what passed."""
    if model is None or not inside:
        return 0.0
    return model.counters.success_ns / model.counters.success_count


def server_pieces(model: ModelStatistics | None) -> tuple[Piece, ...]:
    """Queue and compute of all that worked, and what is left of the server's own time."""
    if model is None or not model.counters.success_count:
        return ()
    calls = model.counters.success_count
    total = Counters()
    for row in unique(workers(model)):
        total += row.counters
    pieces = _pieces(total, calls)
    rest = model.counters.success_ns / calls - sum(piece.ns for piece in pieces)
    return (*pieces, Piece(OVERHEAD, max(0.0, rest)))


def _pieces(counters: Counters, calls: int) -> tuple[Piece, ...]:
    rows = (
        (QUEUE, counters.queue_ns),
        (CACHE, counters.cache_hit_ns + counters.cache_miss_ns),
        (INPUT, counters.compute_input_ns),
        (INFER, counters.compute_infer_ns),
        (OUTPUT, counters.compute_output_ns),
    )
    return tuple(Piece(name, ns / calls) for name, ns in rows)


def steps(model: ModelStatistics | None) -> tuple[ModelTime, ...]:
    """The composing models that worked; a model that calls others itself comes first, with what is its own."""
    if model is None or not model.members or not model.counters.success_count:
        return ()
    calls = model.counters.success_count
    found = tuple(_step(row, calls) for row in unique(w for member in model.members for w in workers(member)))
    if model.is_ensemble:
        return found
    own = model.counters
    work_ns = max(0.0, compute_ns(own) / calls - sum(step.ns for step in found))
    pieces = (Piece(QUEUE, own.queue_ns / calls), Piece(OWN, work_ns))
    return (ModelTime(model.name, 1.0, pieces, _batch(own)), *found)


def _step(model: ModelStatistics, calls: int) -> ModelTime:
    row = model.counters
    pieces = _pieces(row, calls)
    rest = Piece(OVERHEAD, max(0.0, row.success_ns / calls - sum(piece.ns for piece in pieces)))
    shown = tuple(piece for piece in (*pieces, rest) if piece.ns > 0)
    return ModelTime(model.name, row.success_count / calls, shown, _batch(row))


def _batch(counters: Counters) -> float:
    return counters.inference_count / counters.execution_count if counters.execution_count else 0.0
