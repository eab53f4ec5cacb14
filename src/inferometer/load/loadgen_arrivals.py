"""Arrival times of MLPerf's loadgen: the same seed and rate give the same queries at the same nanosecond.

Loadgen draws exponential gaps with the C++ standard library of GNU: two 32-bit outputs of the Mersenne twister make a
number below 1, lower half first, and each gap is truncated to nanoseconds. The first query is due at once. Queries
are generated until there are enough of them and one is due at the minimum duration or later.
"""

import numpy as np
from numpy.typing import NDArray

from inferometer.base.units import NS_PER_S

SEED = 16159082839903944936  # schedule_rng_seed of MLPerf Inference v5 and v6
_PIECE = 4096
_BELOW_ONE = np.nextafter(1.0, 0.0)


def loadgen_times(
    rate: float, *, min_duration_ns: int, min_queries: int, seed: int = SEED
) -> tuple[int, ...]:
    """Return the due times of all queries in nanoseconds."""
    bits = np.random.RandomState(seed % 2**32)
    found, last_ns, count = [np.zeros(1, dtype=np.int64)], 0, 1
    while last_ns < min_duration_ns or count < min_queries:
        times = last_ns + np.cumsum(_gaps_ns(bits, rate))
        found.append(times)
        last_ns, count = int(times[-1]), count + len(times)
    times = np.concatenate(found)
    needed = int(np.searchsorted(times, min_duration_ns)) + 1
    return tuple(times[: max(needed, min_queries, 1)].tolist())


def _gaps_ns(bits: np.random.RandomState, rate: float) -> NDArray[np.int64]:
    raw = bits.randint(0, 2**32, size=2 * _PIECE, dtype=np.uint32).astype(np.float64)
    unit = np.minimum((raw[::2] + raw[1::2] * 2.0**32) / 2.0**64, _BELOW_ONE)
    gaps: NDArray[np.int64] = (-np.log(1 - unit) / rate * NS_PER_S).astype(np.int64)
    return gaps
