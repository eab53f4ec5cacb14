"""Any result makes a page: figures of any size, with or without optional parts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferometer.options.effective import Effective
from inferometer.report.saved import to_html, to_markdown
from inferometer.stats.estimate import Estimate
from inferometer.stats.series import Series
from tests.support.reports import sample_result

TIMES = st.lists(st.integers(1, 10**12), min_size=1, max_size=40)
RATES = st.floats(0, 1e9, allow_nan=False)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TIMES, RATES, st.floats(-1e9, 1e9), st.booleans(), st.booleans(), st.integers(0, 8))
def test_any_figures_make_a_page(times, rate, low, has_server, is_rate, windows):
    latency = Series(np.array(times, dtype=np.int64)).distribution()
    result = sample_result()
    levels = []
    for number, level in enumerate(result.levels):
        found = level.measurement
        estimate = Estimate(rate, low, rate * 2) if number % 2 else Estimate(rate)
        found = replace(
            found,
            request_count=latency.count,
            infer_per_s=estimate,
            latency=latency,
            service=latency,
            latency_intervals=(("p50", Estimate(float(latency.mean_ns), low, 1e13)), ("p99", Estimate(1.0))),
            server=found.server if has_server else None,
            send_ns=0,
        )
        mode = "request_rate" if is_rate else "concurrency"
        shown = tuple(
            replace(row, p99_ns=max(times), p50_ns=min(times), infer_per_s=rate)
            for row in level.windows[:windows]
        )
        levels.append(replace(level, mode=mode, measurement=found, windows=shown))
    page = to_html(replace(result, levels=tuple(levels)))
    assert "nan" not in page.split('id="source"')[0].split("</style>")[1].lower().replace("finance", "")
    assert to_markdown(replace(result, levels=tuple(levels)))


@pytest.mark.parametrize("empty", ["asked", "host", "server", "model"])
def test_nearly_empty_results_make_a_page(empty):
    without: Any = {empty: {}}
    assert "<main>" in to_html(replace(sample_result(), **without, effective=Effective()))
