"""Plans: SLOs, prices, options and their errors, and the basis of figures."""

from dataclasses import replace

import numpy as np
import pytest

from inferometer import api
from inferometer.base.answer_file import to_json
from inferometer.base.errors import UsageError
from inferometer.capacity.fleet import Fleet, simulate
from inferometer.capacity.replica import replica_of
from inferometer.capacity.run import _basis, _best
from inferometer.capacity.saved import priced
from inferometer.report.documents.capacity import capacity_document
from inferometer.report.markdown import markdown
from inferometer.stats.estimate import Estimate
from inferometer.tune.scoring import Goal
from inferometer.tune.study import Study
from inferometer.tune.trial import ClientLoad, Figures, Trial, TrialPart
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import sample_result


@pytest.fixture(scope="module")
def plan():
    return api.capacity(sample_result(), traffic="100/s", slo="p99<200ms", price="720/month")


def test_a_plan_has_headroom_and_a_price(plan):
    option = plan.chosen
    assert option.whole.replicas == option.fewest.replicas + 1
    assert option.whole.utilisation.value < option.fewest.utilisation.value < 1
    assert option.cost_per_h == pytest.approx(option.replicas * 720 / 730)
    assert option.over_time == (option.replicas,)
    assert option.autoscaling is None  # the traffic never changes
    assert (
        dict(option.by_balancer)["random"]
        >= dict(option.by_balancer)["round-robin"]
        == option.fewest.replicas
    )


def test_every_figure_has_its_basis(plan):
    option = plan.chosen
    figures = [option.replica.most_per_s, option.replica.alone_ns]
    for fleet in (option.fewest, option.whole):
        figures += [fleet.utilisation, *(term.expected for term in fleet.terms)]
    assert all(
        figure.basis in ("measured", "interpolated", "extrapolated") and figure.source for figure in figures
    )


def test_figures_beyond_the_measured_loads_are_extrapolated():
    replica = replica_of(sample_result(), "a")
    assert [_basis(replica, 10.0, inside)[0] for inside in (1, 4, 5)] == [
        "interpolated",
        "interpolated",
        "extrapolated",
    ]
    rates = replace(
        replica, mode="request_rate", loads=tuple(replace(row, load=10 * row.load) for row in replica.loads)
    )
    assert [_basis(rates, rate, 1)[0] for rate in (20.0, 25.0, 50.0)] == [
        "measured",
        "interpolated",
        "extrapolated",
    ]


def test_an_slo_that_a_single_request_violates_has_no_number():
    plan = api.capacity(sample_result(), traffic="100/s", slo="p99<5ms")
    assert plan.chosen is None
    assert plan.options[0].reason == "a single request without queueing already violates 'p99<5ms'"
    assert "No number of replicas" in api.to_markdown(plan)


def test_failures_count_at_their_measured_load():
    base = sample_result()
    last = base.levels[-1]
    failing = replace(last.measurement, failed_count=last.measurement.request_count)
    result = replace(base, levels=(*base.levels[:-1], replace(last, measurement=failing)))
    replica = replica_of(result, "a")
    assert replica.failed_share(10.0) == 0.0
    assert replica.failed_share(1000.0) == pytest.approx(0.5)


def test_the_cheapest_option_is_chosen():
    options = sample_capacity().options
    assert _best(options) == 0
    dear = replace(options[0], cost_per_h=100.0)
    assert _best((dear, *options[1:])) == 1
    unpriced = replace(options[0], cost_per_h=None)
    assert _best((unpriced, *options[1:])) == 1  # has fewer replicas
    assert _best(options[2:]) is None


def test_options_are_named_after_their_files():
    results = [("a/small.json", sample_result()), ("b/large.json", sample_result())]
    found = priced(results, (("", 1.0), ("large", 2.0)))
    assert [(option.name, option.price_per_h) for option in found] == [("small", 1.0), ("large", 2.0)]
    alike = priced([("a/x.json", sample_result()), ("b/x.json", sample_result())], ())
    assert [option.name for option in alike] == ["a/x", "b/x"]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"slo": "ttft<1s"}, "predicts ttft only for results with streamed answers"),
        ({"slo": "gap<1s"}, "cannot predict gap"),
        ({"prompt_tokens": 100}, "does not generate text"),
        ({"slo": "throughput>5"}, "cannot predict throughput"),
        ({"price": {"other": 2.0}}, "price names 'other'"),
        ({"price": "cheap"}, "cheap"),
        ({"scale_on": "heat:5"}, "is not a scaling rule"),
        ({"scale_on": "utilisation:150%"}, "at most 100 %"),
        ({"scale_on": "queue:5%"}, "a number of requests"),
        ({"scale_on": "queue:5"}, "scale_on .* '10/s' never changes"),
        ({"startup_s": 5}, "startup_s .* '10/s' never changes"),
        ({"stretch_s": 5}, "stretch_s applies to traces only, and '10/s' is a rate"),
        ({"balancer": "best"}, "best"),
        ({"traffic": "0/s"}, "is not above 0"),
    ],
)
def test_impossible_plans_are_rejected(more, complaint):
    asked = {"traffic": "10/s", "slo": "p99<1s"} | more
    with pytest.raises(UsageError, match=complaint) as refused:
        api.capacity(sample_result(), **asked)
    assert refused.value.remedy


def test_a_trace_of_one_stretch_has_a_mean_rate_and_no_autoscaler(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f'{{"timestamp": {100 * number}}}\n' for number in range(100)))
    plan = api.capacity(sample_result(), traffic=path, slo="p99<1s")
    text = markdown(capacity_document(plan))
    assert "10.0 requests/s on average" in text
    assert "Over the whole trace of 10.0 s" in text
    assert "at most" not in text
    with pytest.raises(UsageError, match=r"is one stretch of 10\.0 s") as refused:
        api.capacity(sample_result(), traffic=path, slo="p99<1s", startup_s=5)
    assert "stretch_s" in refused.value.remedy
    assert (
        len(api.capacity(sample_result(), traffic=path, slo="p99<1s", startup_s=5, stretch_s=5).stretches)
        == 2
    )


def test_the_stretch_that_needs_the_most_replicas_is_named_with_its_own_rate(tmp_path):
    """Ten requests at once need more replicas than a steady load of four times their mean rate."""
    times_s = [*np.arange(0.0, 20.0, 0.5).tolist(), *[25.0] * 10, *np.arange(40.0, 60.5, 0.5).tolist()]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f'{{"timestamp_s": {time}}}\n' for time in times_s))
    plan = api.capacity(sample_result(), traffic=path, slo="p99<200ms", stretch_s=20)
    fewest, text = plan.chosen.fewest, markdown(capacity_document(plan))
    assert plan.peak != plan.hardest(plan.chosen) == 1
    assert fewest.replicas * fewest.per_replica == pytest.approx(plan.stretches[1].rate)
    assert "in bursts from 20.2 s on, at 0.54 requests/s on average" in text
    assert "In the stretch with the hardest bursts, 20.2 s to 40.4 s" in text


def test_results_with_changing_load_are_rejected():
    base = sample_result()
    for result in (replace(base, effective=replace(base.effective, mode="replay")), replace(base, levels=())):
        with pytest.raises(UsageError) as refused:
            api.capacity(result, traffic="10/s", slo="p99<1s")
        assert "inferometer measure" in refused.value.remedy


def test_plans_with_the_same_seed_are_equal(plan):
    assert plan == api.capacity(sample_result(), traffic="100/s", slo="p99<200ms", price="720/month")


# --- the fleet


def exact(places, per_s):
    """Every request needs the same work."""
    base = replica_of(sample_result(), "a")
    return replace(base, places=places, per_s=per_s, edges=(1.0, 1.0), shares=(0.0, 1.0), delay_s=0.0)


@pytest.mark.parametrize(
    ("places", "per_s", "latencies"),
    [
        (1, (10.0,), [0.1, 0.2, 0.3, 0.1]),  # one after the other
        (2, (10.0, 20.0), [0.1, 0.1, 0.2, 0.1]),  # two at a time
        (
            2,
            (10.0, 10.0),
            [0.2, 0.2, 0.3, 0.1],
        ),  # two that share the work of one: the third runs alone at the end
    ],
)
def test_three_requests_at_once_and_one_later(places, per_s, latencies):
    found = simulate(Fleet(exact(places, per_s), 1), np.array([0.0, 0.0, 0.0, 5.0]), np.random.default_rng(1))
    assert found.latencies_s.tolist() == pytest.approx(latencies)
    assert found.inside.tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize("balancer", ["round-robin", "least-outstanding"])
def test_balancers_spread_simultaneous_requests(balancer):
    found = simulate(Fleet(exact(1, (10.0,)), 4, balancer), np.zeros(8), np.random.default_rng(1))
    assert sorted(found.latencies_s.tolist()) == pytest.approx([0.1] * 4 + [0.2] * 4)


def searched(path, startup_s: float) -> str:
    """Save a search whose best configuration took this long to start."""
    load, rate = ClientLoad(concurrency=8), Figures((("perf_throughput", Estimate(100.0)),))
    part = TrialPart("server", "server_config_default", load, rate)
    study = Study(
        "tool", "online", "smart", (Goal("server"),), trials=(Trial(1, (part,), startup_s=startup_s),)
    )
    path.write_text(to_json(study))
    return str(path)


@pytest.mark.parametrize(
    ("given", "startup_s", "said"),
    [
        (None, 60.0, "ready 1m after they are started (assumed: --startup sets it)"),
        ("20s", 20.0, "ready 20 s after they are started."),
        (17.5, 17.5, "after they are started (measured, including the warm-up)"),
    ],
)
def test_the_start_up_time_of_a_replica_is_assumed_given_or_measured(tmp_path, given, startup_s, said):
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f'{{"timestamp": {100 * number}}}\n' for number in range(100)))
    startup = searched(tmp_path / "study.json", given) if isinstance(given, float) else given
    plan = api.capacity(sample_result(), traffic=path, slo="p99<1s", startup_s=startup, stretch_s=5)
    assert plan.chosen.autoscaling.startup_s == startup_s
    assert said.replace("1m", "").split(" after")[-1] in markdown(capacity_document(plan))


def test_a_search_that_started_no_server_has_no_start_up_time(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f'{{"timestamp": {100 * number}}}\n' for number in range(100)))
    startup = searched(tmp_path / "study.json", 0.0)
    with pytest.raises(UsageError, match="started no server for its best configuration") as refused:
        api.capacity(sample_result(), traffic=path, slo="p99<1s", startup_s=startup, stretch_s=5)
    assert "tune --serve" in refused.value.remedy
