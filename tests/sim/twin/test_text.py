"""A twin of a text server with known steps: fit through the real line, held-out loads by a loop without our code."""

from dataclasses import replace

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.capacity.request import request_of
from inferometer.capacity.run import plan_capacity
from inferometer.capacity.saved import named_options
from inferometer.options.planning import CapacityOptions
from inferometer.stats.watcher import Watcher
from inferometer.twin.check import CheckRequest, check_twin, checked_result
from inferometer.twin.loads import AskedLoads, loads_of, setting_of
from inferometer.twin.predict import forecast
from inferometer.twin.simulate import MeasuredAs
from tests.support.text_runs import (
    SHORT,
    fleet_first_p99_ns,
    random_arrivals,
    short_text_result,
    short_text_twin,
    truth,
)
from tests.support.twins import sample_twin

HELD_OUT_S = {0: 60.0, 12.0: 400.0, 200.0: 10.0}  # by rate
RATE = 150.0


@pytest.fixture(scope="module")
def twin():
    return short_text_twin()


def held_out(twin, seed=7, rate=0.0, users=0, known=SHORT, **asked):
    """A forecast beside the true figures."""
    lengths = {
        "prompt_tokens": "uniform({}, {})".format(*known.prompts),
        "output_tokens": "uniform({}, {})".format(*known.answers),
    }
    load = AskedLoads(
        concurrency=(float(users),) if users else (),
        rates=(rate,) if rate else (),
        arrivals="poisson" if rate else "constant",
        **(lengths | asked),
    )
    (wanted,) = loads_of(twin, load)
    seconds = HELD_OUT_S[rate]
    (row,) = forecast(twin, wanted, MeasuredAs(seconds))
    due_s = random_arrivals(rate, seconds + 2, seed) if rate else ()
    return row, truth(known, users=users, due_s=due_s, seconds=seconds, settle_s=2.0, seed=seed).figures


@pytest.mark.parametrize("load", [{"users": 2}, {"users": 6}, {"users": 16}, {"rate": 12.0}])
def test_other_loads_are_predicted(twin, load):
    row, true = held_out(twin, **load)
    assert row.bands["mean"].value == pytest.approx(true["mean"], rel=0.06)
    assert row.bands["ttft p99"].value == pytest.approx(true["ttft p99"], rel=0.12)
    assert sum(row.bands[name].covers(value) for name, value in true.items()) >= len(true) - 1


def test_other_slots_are_predicted(twin):
    known = replace(SHORT, settings=replace(SHORT.settings, slots=8))
    row, true = held_out(twin, users=12, known=known, settings=(setting_of("tiny.slots=8"),))
    assert row.basis == "extrapolated"
    assert row.bands["mean"].value == pytest.approx(true["mean"], rel=0.06)


def test_other_lengths_are_predicted(twin):
    known = replace(SHORT, prompts=(60, 100), answers=(10, 30))
    row, true = held_out(twin, users=3, known=known)
    assert row.basis == "extrapolated"
    assert row.bands["mean"].value == pytest.approx(true["mean"], rel=0.06)


def test_slots_are_inferred_without_metrics(twin):
    assert twin.models[0].text.engine.slots == SHORT.settings.slots
    assert any("about 4 requests run at once" in note for note in twin.notes)


def test_loads_beyond_the_capacity_have_no_latency(twin):
    row, _ = held_out(twin, rate=200.0)
    assert row.is_overloaded
    assert set(row.bands) == {"throughput", "tokens"}


def test_measured_loads_are_checked_with_their_own_lengths(twin):
    rows = checked_result(twin, short_text_result())
    assert [row.basis for row in rows] == ["measured"] * 3
    assert all(abs(row.error("mean")) < 0.05 for row in rows)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"settings": (setting_of("tiny.instances=2"),)}, "'tiny' generates text and has no such setting"),
        ({"settings": (setting_of("tiny.kv_tokens=10"),)}, "does not hold the longest request"),
    ],
)
def test_settings_that_do_not_apply_are_named(twin, asked, sentence):
    (load,) = loads_of(twin, AskedLoads(concurrency=(2.0,), models=("tiny",), **asked))
    with pytest.raises(UsageError, match=sentence):
        forecast(twin, load)


def test_a_mix_with_a_text_server_is_refused_before_it_is_measured(twin):
    beside = sample_twin("other")
    both = replace(twin, models=(*twin.models, beside.models[0]), errors={**twin.errors, **beside.errors})
    loads = loads_of(both, AskedLoads(concurrency=(2.0,), models=("tiny", "other")))
    for act in (lambda: forecast(both, loads[0]), lambda: check_twin(both, CheckRequest(loads), Watcher())):
        with pytest.raises(UsageError, match="tiny and other together cannot be predicted"):
            act()


# --- capacity


def plan(**asked):
    promise = parse_slo(asked.pop("slo", "ttft p99<150ms"))
    options = CapacityOptions(traffic=f"{RATE}/s", slo=promise, spare=0, **asked)
    return plan_capacity(request_of(options, named_options([short_text_result()], options.price)))


def test_the_planned_replicas_meet_the_slo_and_two_fewer_do_not():
    found = plan(price=(("", 2.0),)).chosen
    count = found.fewest.replicas
    due_s = random_arrivals(RATE, 60.0, 3)
    p99 = {number: fleet_first_p99_ns(SHORT, number, due_s, settle_s=5.0) for number in (count, count - 2)}
    assert p99[count] < 150e6 < p99[count - 2]
    assert found.fewer.replicas == count - 1
    assert found.fewer.terms[0].expected.value > found.fewest.terms[0].expected.value
    tokens_per_h = RATE * 3600 * found.lengths[1]
    assert found.cost_per_million == pytest.approx(2.0 * count / tokens_per_h * 1e6)


def test_longer_answers_need_more_replicas():
    usual = plan(output_tokens=8)
    longer = plan(output_tokens=16)
    assert longer.chosen.fewest.replicas > usual.chosen.fewest.replicas
    assert longer.chosen.fewest.basis == "extrapolated"


@pytest.mark.parametrize("slo", ["tpot p99<40ms", "latency<2s, ttft<100ms, goodput>90%"])
def test_every_slo_of_text_is_planned(slo):
    assert plan(slo=slo).chosen.fewest.replicas >= 1


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"slo": "gap p99<40ms"}, "cannot predict gap"),
        ({"slo": "ttft p99<1ms"}, None),
    ],
)
def test_slos_that_cannot_be_met_or_predicted(asked, sentence):
    if sentence is None:
        assert "already violates 'ttft p99<1ms'" in plan(**asked).options[0].reason
        return
    with pytest.raises(UsageError, match=sentence):
        plan(**asked)
