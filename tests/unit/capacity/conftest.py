"""Plans in these tests simulate a tenth of the requests; `tests/sim/capacity` simulates all of them."""

from collections.abc import Iterator

import pytest

from inferometer.capacity import keeping


@pytest.fixture(scope="module", autouse=True)
def _short_simulations() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("ALL_REQUESTS", "THOROUGH", "MOST_REQUESTS", "BEYOND"):
            patch.setattr(keeping, limit, getattr(keeping, limit) // 10)
        yield
