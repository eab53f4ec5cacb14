"""Server figures are differences of the server's own counters."""

from inferometer.model.spec import ModelSpec
from inferometer.observe.statistics import Counters, Executions, difference, snapshot


def row(name, version, count, ns=1000):
    stats = {key: {"count": count, "ns": count * ns} for key in ("success", "queue", "compute_infer")}
    return {
        "name": name,
        "version": version,
        "inference_count": count,
        "execution_count": count,
        "inference_stats": stats,
    }


def model(name, version="", composing=()):
    return ModelSpec(name, version, (), (), is_ensemble=bool(composing), composing=composing)


def test_difference_counts_only_the_time_in_between():
    found = difference(model("m"), snapshot([row("m", "1", 10)]), snapshot([row("m", "1", 17)]))
    assert (found.version, found.counters.success_count, found.counters.success_ns) == ("1", 7, 7000)


def test_version_is_the_one_that_was_called_and_the_highest_of_several():
    before = snapshot([row("m", "1", 5), row("m", "2", 5), row("m", "10", 5)])
    assert (
        difference(
            model("m"), before, snapshot([row("m", "1", 6), row("m", "2", 5), row("m", "10", 5)])
        ).version
        == "1"
    )
    assert (
        difference(
            model("m"), before, snapshot([row("m", "1", 5), row("m", "2", 6), row("m", "10", 6)])
        ).version
        == "10"
    )


def test_other_versions_that_were_called_are_recorded():
    after = snapshot([row("m", "1", 6), row("m", "2", 6), row("m", "10", 5), row("m", "3", 0)])
    assert difference(model("m"), {}, after).also_called == ("1", "2")
    assert difference(model("m", "2"), {}, after).also_called == ()


def test_requested_version_is_kept_even_if_another_was_busier():
    found = difference(model("m", "2"), {}, snapshot([row("m", "1", 9), row("m", "2", 1)]))
    assert (found.version, found.counters.success_count) == ("2", 1)


def test_members_are_followed_and_one_never_called_is_marked():
    ensemble = model("e", composing=(model("a"), model("b")))
    found = difference(ensemble, {}, snapshot([row("e", "1", 2), row("a", "1", 2), row("b", "1", 0)]))
    assert [(member.name, member.was_called) for member in found.members] == [("a", True), ("b", False)]


def test_a_new_model_counts_from_zero():
    assert difference(model("m"), {}, snapshot([row("m", "1", 3)])).counters.success_count == 3


def test_counters_add_and_subtract_field_by_field():
    one, two = Counters(inference_count=1, queue_ns=5), Counters(inference_count=2, queue_ns=7)
    assert two - one == Counters(inference_count=1, queue_ns=2)
    assert one + two == Counters(inference_count=3, queue_ns=12)


def sized(**sizes):
    """`b4=(10, 1, 2, 3)`: ten executions of four, and nanoseconds of input, infer and output."""
    parts = ("compute_input", "compute_infer", "compute_output")
    rows = [
        {"batch_size": int(name[1:])}
        | {part: {"count": count, "ns": value} for part, value in zip(parts, ns, strict=True)}
        for name, (count, *ns) in sizes.items()
    ]
    return {**row("m", "1", 1), "batch_stats": rows}


def test_executions_are_counted_by_batch_size():
    before = snapshot([sized(b1=(10, 100, 1000, 50))])
    after = snapshot([sized(b8=(2, 40, 600, 20), b1=(20, 300, 2500, 150), b2=(0, 0, 0, 0))])
    found = difference(model("m"), before, after).counters
    assert found.sizes == ((8, 2, 40, 600, 20), (1, 10, 200, 1500, 100))
    assert found.executions == (Executions(1, 10, 20.0, 150.0, 10.0), Executions(8, 2, 20.0, 300.0, 10.0))
    assert (found + found).executions[0] == Executions(1, 20, 20.0, 150.0, 10.0)
    assert difference(model("m"), after, after).counters.executions == ()
