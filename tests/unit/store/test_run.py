"""Runs survive a round trip through their file, and other files are refused."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.stats.estimate import Estimate
from inferometer.store.run import STATES, Point, Run, from_plain, to_plain

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
figures = st.dictionaries(
    texts, st.builds(Estimate, numbers, st.none() | numbers, st.none() | numbers), max_size=2
)
runs = st.builds(
    Run,
    id=texts,
    command=texts,
    words=st.lists(texts, max_size=3).map(tuple),
    state=st.sampled_from(STATES),
    code=st.none() | st.integers(),
    started_at=texts,
    ended_at=st.none() | texts,
    tags=st.lists(texts, max_size=3).map(tuple),
    pid=st.integers(),
    process_started=numbers,
    figures=figures,
    points=st.lists(st.builds(Point, texts, numbers, figures, texts), max_size=2).map(tuple),
)


@given(runs)
def test_a_run_survives_a_round_trip(run: Run) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(run)))) == run


@given(
    st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda part: st.lists(part) | st.dictionaries(st.sampled_from(sorted(to_plain(Run("", "")))), part),
        max_leaves=12,
    )
)
def test_anything_else_is_refused(document: object) -> None:
    whole = {"kind": "run", "schema": 1, **document} if isinstance(document, dict) else document
    with suppress(ValueError):
        assert isinstance(from_plain(whole), Run)


@pytest.mark.parametrize("document", [None, [], {}, {"kind": "result"}, {"kind": "run", "schema": 99}])
def test_invalid_runs_are_refused(document: object) -> None:
    with pytest.raises(ValueError, match="it "):
        from_plain(document)


def test_unknown_fields_of_later_versions_are_ignored() -> None:
    run = Run("1111aaaa", "measure")
    assert from_plain({**to_plain(run), "more": 1}) == run
