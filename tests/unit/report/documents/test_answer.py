"""The answer of a measurement in one sentence."""

import re
from dataclasses import replace

import pytest

from inferometer.base.notes import CLIENT_LIMITS, Note, Remark
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


@pytest.mark.parametrize("note", [None, Note.CLIENT_STARVED, Note.CLIENT_LIMITED])
def test_a_server_is_not_said_to_keep_up_unless_that_was_measured(sweep, note):
    found = sweep({100: 97.0, 200: 180.0}, mode="request_rate", unsure=() if note else (100,), spoilt=(200,))
    first, *others = found.levels
    remarks = (Remark(note, "client-limited: other programs used 1.9 of 2 cores"),) if note else ()
    found = replace(found, levels=(replace(first, remarks=remarks), *others))
    width = "1.0" if note else "50"
    assert answer(found) == (
        f"Inconclusive whether the server keeps up with 100 requests/s: 97.0 infer/s ±{width} %, {FIGURES}; "
        "not with 200."
    )


def test_other_programs_are_named_once(sweep):
    found = sweep({4: 1200.0})
    notes = (
        Remark(Note.CLIENT_STARVED, "client-limited: waited for a core; other programs used 1.9 of 2 cores"),
        Remark(Note.HOST_BUSY, "other programs used 1.9 of 2 cores for the whole level"),
    )
    for remarks in (notes, notes[1:]):
        level = replace(found.levels[0], remarks=remarks)
        assert document(replace(found, levels=(level,))).verdict.count("other programs") == 1


def test_answer_of_a_schedule(sweep):
    result = sweep({100: 100.0}, mode="request_rate")
    result = replace(result, effective=replace(result.effective, mode="replay"))
    assert answer(result) == f"All 900 requests were answered, 100 infer/s ±1.0 % on average, {FIGURES}."


@pytest.mark.parametrize(("count", "tail"), [(99, "slowest 4.00 ms"), (100, "p99 4.00 ms")])
def test_few_requests_have_no_p99(sweep, count, tail):
    words = f"2,350 infer/s ±1.0 % at concurrency 8, p50 2.00 µs, {tail}."
    assert answer(sweep({8: 2350.0}, count=count)) == words


LIMITED = (Remark(Note.CLIENT_STARVED, "it waited for a core"), Remark(Note.NOT_OFFERED, "fewer were sent"))


@pytest.mark.parametrize("note", CLIENT_LIMITS)
@pytest.mark.parametrize("limited", [(16,), (32,), (16, 32), (8,)])
def test_levels_that_show_the_client_say_nothing_about_the_server(sweep, note, limited):
    """Throughput stops growing at the loads from which on this client is the limit."""
    found = sweep({4: 2300.0, 8: 2350.0, 16: 2360.0, 32: 2200.0})
    levels = [
        replace(row, remarks=(Remark(note, "it was"),)) if row.value in limited else row
        for row in found.levels
    ]
    found = replace(found, levels=tuple(levels))
    assert not re.search("saturated|already reaches|may rise", answer(found))


def test_a_limited_client_does_not_show_which_rate_is_too_high_for_the_server(sweep):
    found = sweep({100: 100.0, 200: 130.0}, mode="request_rate")
    spoilt = replace(found.levels[1], remarks=LIMITED)
    assert answer(replace(found, levels=(found.levels[0], spoilt))) == (
        f"Keeps up with 100 requests/s: {FIGURES}; with 200, this client was the limit."
    )


def test_load_beyond_the_knee_adds_little_only_if_the_client_kept_up(sweep):
    found = sweep({4: 2300.0, 8: 2380.0})
    assert document(found).sections[0].lead
    limited = replace(found.levels[1], remarks=LIMITED[:1])
    assert not document(replace(found, levels=(found.levels[0], limited))).sections[0].lead
