"""Traces: send times and optional data; every error names file and line."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.dataset.replay import TraceLine, read_trace

MS = NS_PER_MS


@pytest.fixture
def trace(tmp_path):
    def read(*lines, **more):
        path = tmp_path / "trace.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return read_trace(str(path), **more).entries

    return read


def test_times_are_milliseconds_or_seconds(trace):
    found = trace('{"timestamp": 0}', '{"timestamp_ms": 1.5}', '{"timestamp_s": 0.25}')
    assert [entry.time_ns for entry in found] == [0, 1_500_000, 250 * MS]


def test_only_time_differences_matter_not_the_order_of_lines(trace):
    found = trace('{"timestamp": 1700000000250}', "", '{"timestamp": 1700000000000}', "  ")
    assert [(entry.time_ns, entry.line) for entry in found] == [(0, 3), (250 * MS, 1)]


@pytest.mark.parametrize(("speed", "last_ms"), [(1.0, 300), (2.0, 150), (0.5, 600)])
def test_speed_divides_the_time(trace, speed, last_ms):
    assert trace('{"timestamp": 100}', '{"timestamp": 400}', speed=speed)[-1].time_ns == last_ms * MS


def test_lines_may_define_their_data(trace):
    found = trace(
        '{"timestamp": 0, "step": 3, "input_length": 7}',
        '{"timestamp": 1, "stream": 1, "step": 0}',
        '{"timestamp": 2, "data": {"A": [1, 2.5]}}',
    )
    assert found == (
        TraceLine(0, 1, step=3),
        TraceLine(MS, 2, step=0, stream=1),
        TraceLine(2 * MS, 3, data=b'{"A": [1, 2.5]}'),
    )


REFUSED = [
    ("", "the trace '.*' is empty"),
    ("{oops", "line 1 of '.*' is not JSON"),
    ("[" * 100_000, "line 1 of '.*' is not JSON"),
    ("[1]", "line 1 of '.*' is not an object"),
    ("{}", "line 1 of '.*' has no time"),
    ('{"timestamp": 1, "timestamp_s": 1}', "line 1 of '.*' has more than one time"),
    ('{"timestamp": "1"}', "line 1 of '.*': 'timestamp' is \"1\""),
    ('{"timestamp": true}', "line 1 of '.*': 'timestamp' is true"),
    ('{"timestamp": NaN}', "line 1 of '.*': 'timestamp' is NaN"),
    ('{"timestamp": 1e999}', "line 1 of '.*': 'timestamp' is Infinity"),
    ('{"timestamp": 1, "step": -1}', "line 1 of '.*': 'step' is -1"),
    ('{"timestamp": 1, "stream": 1.5}', "line 1 of '.*': 'stream' is 1.5"),
    ('{"timestamp": 1, "data": [1]}', "line 1 of '.*': 'data' must be an object"),
    ('{"timestamp": 1, "data": {}, "step": 1}', "line 1 of '.*' has its own data and also refers"),
    ('{"timestamp": 1}\n{"timestamp": 2, "step": "x"}', "line 2 of '.*': 'step' is \"x\""),
    (
        '{"timestamp": 1}\n{"timestamp_s": 1700000000}',
        "line 2 of '.*': this request is due 19675 days after the first",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED)
def test_mistakes_name_file_and_line(trace, text, sentence):
    with pytest.raises(UsageError) as refused:
        trace(text)
    assert re.match(sentence, refused.value.message)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_trace(str(tmp_path / "none.jsonl"))


@given(st.binary(max_size=60))
def test_any_bytes_give_a_trace_or_an_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("traces") / "t.jsonl"
    path.write_bytes(b'{"timestamp": ' + data + b"}")
    with suppress(UsageError):
        assert read_trace(str(path)).entries
