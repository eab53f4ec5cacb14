"""The answer of a measurement in one sentence."""

import re
from dataclasses import replace

import pytest

from inferometer.base.notes import Note, Remark
from inferometer.report.documents.answer import answer
from inferometer.report.saved import document


@pytest.fixture
def sweep(build):
    def make(rates, *, mode="concurrency", spoilt=(), count=900, unsure=()):
        levels = []
        for load, per_s in rates.items():
            found = (
                None
                if per_s is None
                else build.measurement(
                    count, per_s, 307, 1, (1, 2, 3, 4000), interval=0.5 if load in unsure else 0.01
                )
            )
            remarks = (Remark(Note.OVERLOADED, "too much"),) if load in spoilt else ()
            levels.append(replace(build.level(found, load, mode=mode), remarks=remarks))
        return build.result(*levels)

    return make


FIGURES = "p50 2.00 µs, p99 4.00 ms"


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ({8: 2350.0}, f"2,350 infer/s ±1.0 % at concurrency 8, {FIGURES}."),
        (
            {4: 1200.0, 8: 2350.0, 16: 2360.0, 32: 2100.0},
            f"2,350 infer/s ±1.0 % at concurrency 8, {FIGURES}: throughput has saturated.",
        ),
        (
            {4: 1200.0, 8: 2350.0},
            f"2,350 infer/s ±1.0 % at concurrency 8, {FIGURES}: throughput may rise further with more load.",
        ),
        (
            {4: 2200.0, 8: 2350.0},
            f"2,350 infer/s ±1.0 % at concurrency 8, {FIGURES}: concurrency 4 already reaches 94 % of it.",
        ),
        ({8: 2350.0, 16: None}, f"2,350 infer/s ±1.0 % at concurrency 8, {FIGURES}."),
        ({8: None}, ""),
    ],
)
def test_answer_of_a_concurrency_sweep(sweep, rates, words):
    assert answer(sweep(rates)) == words


@pytest.mark.parametrize("unsure", [(16,), (8, 16), (4, 8), (8,)])
def test_loads_without_precise_figures_are_not_compared(sweep, unsure):
    """A heavier load that may give twice as much does not show that throughput has saturated."""
    for rates in ({8: 2350.0, 16: 2300.0}, {4: 2300.0, 8: 2350.0}):
        if set(unsure) & set(rates):
            found = sweep(rates, unsure=unsure)
            assert not re.search("saturated|already reaches|may rise", answer(found)), rates
            (section,) = (row for row in document(found).sections if row.name == "throughput")
            assert not section.lead
    assert document(sweep({4: 2300.0, 8: 2380.0})).sections[0].lead.startswith("Load beyond concurrency 4")


def test_answer_of_request_rates(sweep):
    rates = {100: 100.0, 200: 199.0, 400: 231.0}
    assert answer(sweep({100: 100.0}, mode="request_rate")) == f"Keeps up with 100 requests/s: {FIGURES}."
    assert answer(sweep(rates, mode="request_rate", spoilt=(400,))) == (
        f"Keeps up with 200 requests/s: {FIGURES}; not with 400."
    )
    assert answer(sweep({400: 231.0}, mode="request_rate", spoilt=(400,))) == (
        f"231 infer/s ±1.0 % instead of the requested 400 requests/s, {FIGURES}: overloaded."
    )


def test_answer_of_a_schedule(sweep):
    result = sweep({100: 100.0}, mode="request_rate")
    result = replace(result, effective=replace(result.effective, mode="replay"))
    assert answer(result) == f"All 900 requests were answered, 100 infer/s ±1.0 % on average, {FIGURES}."


@pytest.mark.parametrize(("count", "tail"), [(99, "slowest 4.00 ms"), (100, "p99 4.00 ms")])
def test_few_requests_have_no_p99(sweep, count, tail):
    words = f"2,350 infer/s ±1.0 % at concurrency 8, p50 2.00 µs, {tail}."
    assert answer(sweep({8: 2350.0}, count=count)) == words
