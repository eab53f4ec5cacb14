"""Executions by batch size, from two readings of the server's statistics."""

from inferometer.observe.statistics import Executions, executions, snapshot


def look(**sizes):
    """`b4=(10, 1, 2, 3)`: ten executions of four, and nanoseconds of input, infer and output."""
    rows = [
        {
            "batch_size": int(name[1:]),
            "compute_input": {"count": count, "ns": given},
            "compute_infer": {"count": count, "ns": worked},
            "compute_output": {"count": count, "ns": made},
        }
        for name, (count, given, worked, made) in sizes.items()
    ]
    return snapshot([{"name": "m", "version": "1", "batch_stats": rows}])


def test_executions_between_two_readings_smallest_first():
    before = look(b1=(10, 100, 1000, 50))
    after = look(b8=(2, 40, 600, 20), b1=(20, 300, 2500, 150), b2=(0, 0, 0, 0))
    assert executions(before, after) == {
        ("m", "1"): (Executions(1, 10, 20.0, 150.0, 10.0), Executions(8, 2, 20.0, 300.0, 10.0))
    }
    assert executions(before, after)["m", "1"][1].total_ns == 330.0


def test_a_reloaded_model_has_no_executions():
    assert executions(look(b1=(10, 1, 1, 1)), look(b1=(3, 1, 1, 1))) == {}


def test_without_a_first_reading_there_are_no_executions():
    assert executions({}, look(b1=(3, 1, 1, 1))) == {}


def test_a_server_that_does_not_count_by_size_is_accepted():
    bare = snapshot([{"name": "m", "version": "1"}])
    assert executions(bare, bare) == {("m", "1"): ()}
