"""One monotonic clock in integer nanoseconds, passed in wherever time is read."""

import time
from collections.abc import Callable

Clock = Callable[[], int]

monotonic_ns: Clock = time.monotonic_ns
