"""The machines of several servers: which are alike, so that figures of one may be compared with those of another."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GIB = 2**30


@dataclass(frozen=True, slots=True)
class ServerMachine:
    """Where a server runs, and what it has there for itself."""

    place: str  # the address of its node
    processor: str
    cores: tuple[int, ...]
    memory_bytes: int
    gpus: Mapping[str, Any] = field(default_factory=dict)  # name and memory by UUID

    @property
    def kind(self) -> str:
        """Equal for machines that are alike: processor, cores, memory and GPUs, in words."""
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
    """To two digits: machines of one kind differ in how much of their memory the system keeps."""
    return int(round(value, 2 - len(str(int(value)))))


def most_alike(machines: Sequence[ServerMachine]) -> list[int]:
    """The numbers of those of the kind that most are of; of two that are as many, the kind of the first."""
    counts = Counter(machine.kind for machine in machines)
    kind = max(counts, key=counts.__getitem__)
    return [number for number, machine in enumerate(machines) if machine.kind == kind]
