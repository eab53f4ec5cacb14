"""A clock that moves only when a test sets it."""


class FakeClock:
    """Call it for the time; set `now_ns` to move it."""

    def __init__(self, now_ns: int = 1_000_000_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def move_to(self, time_ns: int) -> None:
        self.now_ns = max(self.now_ns, time_ns)
