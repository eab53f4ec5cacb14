"""The four GPU figures of the classic tool: their names, and how they are written in the text and in the CSV."""

from collections.abc import Callable
from dataclasses import dataclass

from inferometer.report.format import decimal
from inferometer.stats.server_metrics import GpuFigures


@dataclass(frozen=True, slots=True)
class GpuColumn:
    """A heading of the text and a column of the CSV."""

    name: str
    value: Callable[[GpuFigures], float | None]
    shown: Callable[[float], str]
    cell: Callable[[float], str] = decimal

    def rows(self, gpus: tuple[GpuFigures, ...]) -> list[tuple[str, float]]:
        """(UUID, value) of the GPUs that have it."""
        found = ((gpu.uuid, self.value(gpu)) for gpu in gpus)
        return [(uuid, value) for uuid, value in found if value is not None]


GPU_COLUMNS = (
    GpuColumn("Avg GPU Utilization", lambda gpu: gpu.utilization, lambda value: f"{decimal(value * 100)}%"),
    GpuColumn("Avg GPU Power Usage", lambda gpu: gpu.power_w, lambda value: f"{decimal(value)} watts"),
    GpuColumn("Max GPU Memory Usage", lambda gpu: gpu.memory_used_bytes, lambda value: f"{value} bytes", str),
    GpuColumn("Total GPU Memory", lambda gpu: gpu.memory_total_bytes, lambda value: f"{value} bytes", str),
)
