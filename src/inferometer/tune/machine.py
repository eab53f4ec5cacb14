"""The machines of several servers, and whether their figures are comparable."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from inferometer.base.frozen import frozen

GIB = 2**30


@frozen
class ServerMachine:
    """The node of a server and the resources reserved for the server."""

    place: str  # address of the node
    processor: str
    cores: tuple[int, ...]
    memory_bytes: int
    gpus: Mapping[str, Any] = field(default_factory=dict)  # name and memory by UUID

    @property
    def kind(self) -> str:
        """Processor, cores, memory and GPUs in words; equal for comparable machines."""
        names = Counter(str(gpu["name"]) for gpu in self.gpus.values())
        parts = [
            f"{len(self.cores)} x {self.processor}",
            f"{_rounded(self.memory_bytes / GIB)} GiB",
            *(f"{count} x {name}" for name, count in sorted(names.items())),
        ]
        return ", ".join(parts)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.kind.encode()).hexdigest()[:8]


def _rounded(value: float) -> int:
    """Round to two digits: the usable memory of identical machines differs slightly."""
    return int(round(value, 2 - len(str(int(value)))))


def most_alike(machines: Sequence[ServerMachine]) -> list[int]:
    """Return the indices of the machines of the most common kind; in a tie, the kind of the first machine."""
    counts = Counter(machine.kind for machine in machines)
    kind = max(counts, key=counts.__getitem__)
    return [number for number, machine in enumerate(machines) if machine.kind == kind]
