import pytest

from inferometer.base.errors import UsageError
from inferometer.store.filter import RunFilter, moment, parse_filter

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ((), RunFilter()),
        (("model=a", "tag=x", "tag=y"), RunFilter(model="a", tags=("x", "y"))),
        (("since=2d",), RunFilter(since_s=NOW - 2 * 86400)),
        (("command=find", "host=h", "state=killed"), RunFilter(command="find", host="h", state="killed")),
        (("two", "words"), RunFilter(text="two words")),
    ],
)
def test_words_filter_runs(words: tuple[str, ...], chosen: RunFilter) -> None:
    assert parse_filter(words, NOW) == chosen


def test_dates_use_the_time_zone_of_this_machine() -> None:
    assert moment("2026-11-02", NOW) - moment("2026-11-01", NOW) == 86400


@pytest.mark.parametrize("word", ["modle=a", "since=yesterday", "x=1"])
def test_invalid_words_have_a_remedy(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_filter((word,), NOW)
    assert caught.value.remedy
