"""Packing and unpacking restores any records exactly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferometer.cluster.blocks import pack, unpack
from inferometer.records.records import COLUMNS, EMPTY, Records, from_rows

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 1 << 40), st.integers(-(1 << 62), 1 << 62))


def assert_same(found: Records, wanted: Records) -> None:
    for name in (*COLUMNS, "times"):
        assert getattr(found, name).dtype == np.int64
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name


@given(st.data())
def test_any_records_survive_a_round_trip(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 12))
    table = np.array([[data.draw(NUMBERS) for _ in COLUMNS] for _ in range(rows)], dtype=np.int64).reshape(
        rows, len(COLUMNS)
    )
    table[:, -1] = [data.draw(st.integers(0, 3)) for _ in range(rows)]
    times = np.array([data.draw(NUMBERS) for _ in range(int(table[:, -1].sum()))], dtype=np.int64)
    records = from_rows(table, times)
    assert_same(unpack(pack(records)), records)


def test_no_records_give_no_bytes() -> None:
    assert pack(EMPTY) == b""
    assert len(unpack(b"")) == 0


def usual(rows: int, seed: int = 1) -> Records:
    """Return records of small requests at full load."""
    draw = np.random.default_rng(seed)
    table = np.zeros((rows, len(COLUMNS)), dtype=np.int64)
    end = 10**15 + np.cumsum(draw.integers(1_000, 20_000, rows))
    took = draw.integers(200_000, 900_000, rows)
    for name, column in {
        "end_ns": end,
        "first_ns": end,
        "sent_ns": end - took,
        "due_ns": end - took,
        "wrote_ns": end - took + draw.integers(8_000, 9_000, rows),
        "received": np.full(rows, 240),
        "responses": np.ones(rows, dtype=np.int64),
    }.items():
        table[:, COLUMNS.index(name)] = column
    return from_rows(table)


def test_a_typical_request_takes_few_bytes() -> None:
    records = usual(10_000)
    assert_same(unpack(pack(records)), records)
    assert len(pack(records)) < 10 * len(records)
