"""When requests are sent: pure numbers, no clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Closed:
    """Keep `concurrency` requests outstanding; stop after `count` if that is given."""

    concurrency: int
    count: int | None = None

    def share(self, index: int, parts: int) -> "Closed":
        """The part of worker `index`; the first ones take the remainder."""
        return Closed(
            _share(self.concurrency, index, parts),
            None if self.count is None else _share(self.count, index, parts),
        )


def _share(total: int, index: int, parts: int) -> int:
    return total // parts + (index < total % parts)
