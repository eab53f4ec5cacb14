"""Lengths of prompts and answers: the accepted forms, and the drawn values."""

from statistics import mean, quantiles, stdev

import pytest

from inferometer.base.errors import UsageError
from inferometer.dataset.lengths import LengthRules, draw_outputs, draw_pairs
from inferometer.options.lengths import lengths, parse_lengths

COUNT = 40_000


def drawn(asked: int | str, count: int = COUNT, seed: int = 1) -> list[int]:
    return [prompt for prompt, _ in draw_pairs(LengthRules(asked), count, seed)]


@pytest.mark.parametrize("asked", [7, "7", " 7 "])
def test_a_number_is_always_the_same(asked):
    assert set(drawn(asked, 10)) == {7}


def test_normal_has_its_mean_and_deviation():
    found = drawn("normal(512, 128)")
    assert mean(found) == pytest.approx(512, rel=0.005)
    assert stdev(found) == pytest.approx(128, rel=0.02)
    assert quantiles(found, n=100)[98] == pytest.approx(512 + 2.326 * 128, rel=0.01)


def test_lognormal_has_the_mean_and_deviation_of_the_lengths_themselves():
    found = drawn("lognormal(1000, 500)")
    assert mean(found) == pytest.approx(1000, rel=0.01)
    assert stdev(found) == pytest.approx(500, rel=0.03)
    # ln X is normal with mean 6.796 and deviation 0.472, so that the median is below the mean.
    assert quantiles(found, n=2)[0] == pytest.approx(894.4, rel=0.01)
    assert quantiles(found, n=100)[98] == pytest.approx(894.4 * 2.999, rel=0.03)


def test_uniform_has_both_ends():
    found = drawn("uniform(3, 5)")
    assert {number: pytest.approx(1 / 3, abs=0.01) for number in (3, 4, 5)} == {
        number: found.count(number) / COUNT for number in set(found)
    }


def test_lengths_below_one_are_redrawn():
    found = drawn("normal(1, 10)")
    assert min(found) == 1
    assert found.count(1) / COUNT < 0.1  # clamping would make it half of them


def test_a_list_is_drawn_by_weight():
    pairs = draw_pairs(LengthRules("128/16:60, 2048/256:40"), COUNT, 1)
    assert set(pairs) == {(128, 16), (2048, 256)}
    assert pairs.count((128, 16)) / COUNT == pytest.approx(0.6, abs=0.01)
    assert drawn("128:3, 5").count(5) / COUNT == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("asked", ["normal(512, 128)", "lognormal(9, 9)", "uniform(1, 99)", "1:1, 2:1"])
def test_same_seed_same_lengths(asked):
    assert drawn(asked, 100, seed=5) == drawn(asked, 100, seed=5) != drawn(asked, 100, seed=6)


def test_lengths_of_answers_do_not_follow_those_of_prompts():
    pairs = draw_pairs(LengthRules("uniform(1, 1000)", "uniform(1, 1000)"), 1000, 1)
    assert sum(prompt < output for prompt, output in pairs) == pytest.approx(500, abs=60)


FILES = {
    "numbers": ("5\n\n6\r\n7", [(5, None), (6, None), (7, None)]),
    "pairs": ("5,1\n6, 2\n", [(5, 1), (6, 2)]),
    "any names": ("a,b\n5,1\n", [(5, 1)]),
    "known names": ("id,Output Tokens,when,input_tokens\nx,9,2026,5\n", [(5, 9)]),
    "one name": ("prompt_tokens\n5\n", [(5, None)]),
    "known name, no output": ("id,isl,when\nx,5,2026\n", [(5, None)]),
}


@pytest.mark.parametrize(("content", "pairs"), list(FILES.values()), ids=list(FILES))
def test_files_are_read_in_their_order(content, pairs, tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_bytes(content.encode())
    assert draw_pairs(LengthRules(f"@{path}"), 2, 0) == pairs


def test_answers_take_the_lengths_of_a_file_in_turn(tmp_path):
    path = tmp_path / "lengths"
    path.write_text("1\n2\n")
    assert draw_outputs(f"@{path}", 5, 0) == [1, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it contains no lengths"),
        ("input,output\n", "it contains no lengths"),
        ("5\nmany\n", "line 2 is 'many'"),
        ("5\n0\n", "line 2 is '0'"),
        ("5,1\n6\n", "line 2 is '6'"),
        ("1,2,3\n", "more than two columns, but no column names"),
        ("a,b,c\n1,2,3\n", "it has no column input_tokens"),
        ("99999999999\n", "must contain lengths from 1 to 10,000,000"),
    ],
)
def test_files_that_are_refused(content, message, tmp_path):
    path = tmp_path / "lengths"
    path.write_text(content)
    with pytest.raises(UsageError, match=message) as refused:
        draw_pairs(LengthRules(f"@{path}"), 1, 0)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("poisson(5)", "'poisson\\(5\\)' is not a length"),
        ("normal(5)", "normal takes two numbers"),
        ("normal(a, b)", "normal takes two numbers"),
        ("normal(nan, 1)", "must be from 1"),
        ("normal(0, 1)", "must be from 1"),
        ("normal(5, -1)", "must be from 1"),
        ("lognormal(5, 1e99)", "must be from 1"),
        ("uniform(5, 1)", "the lower first"),
        ("uniform(1.5, 3)", "two whole numbers"),
        ("128/0:1", "lengths from 1"),
        ("128:0", "needs a weight above 0"),
        ("128/5:1, 12:1", "'12:1' is not a pair"),
        ("128,", "'' is not a length"),
        ("@nowhere", "file 'nowhere' does not exist"),
        ("", "'' is not a length"),
    ],
)
def test_invalid_lengths_are_refused(asked, message):
    with pytest.raises(UsageError, match=message) as refused:
        parse_lengths("--prompt-tokens", asked)
    assert refused.value.remedy


def test_values_of_python_code_are_checked():
    values = lengths(pairs=True)
    for good in (5, "normal(5, 1)"):
        values.check("prompt_tokens", good)
    for bad in (0, 1.5, True, None, "many"):
        with pytest.raises(UsageError):
            values.check("prompt_tokens", bad)


def test_answers_take_no_pairs(tmp_path):
    path = tmp_path / "pairs"
    path.write_text("1,2\n")
    with pytest.raises(UsageError, match="belong in --prompt-tokens"):
        lengths(pairs=False).check("--output-tokens", "1/2:3")
    with pytest.raises(UsageError, match="has pairs"):
        draw_outputs(f"@{path}", 1, 0)
    with pytest.raises(UsageError, match="set the length of the answers"):
        draw_pairs(LengthRules(f"@{path}", "uniform(1, 2)"), 1, 0)


def test_an_excessive_length_is_refused():
    with pytest.raises(UsageError, match="was drawn, more than 10,000,000"):
        drawn("lognormal(9000000, 9000000)")
