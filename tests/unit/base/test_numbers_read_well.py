"""Readable numbers: over twelve decades of every unit, in order, and never in powers of ten."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import inferometer
from inferometer.base import units
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US, duration, plain_number, quantity, rough

SOURCE = Path(inferometer.__file__).parent
UNITS = {"ns": 1, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}
POWER = re.compile(r"\de[+-]?\d")
# Decades from 10⁻⁶ to 10⁶ for counts, and from a nanosecond to a quarter of an hour for times.
VALUES = st.floats(-6, 6).map(lambda power: 10.0**power)
TIMES = st.floats(0, 12).map(lambda power: 10.0**power)


def written(text: str) -> float:
    """Parse the number in a text."""
    number, _, unit = text.replace(",", "").replace(" %", "").partition(" ")
    return float(number.removeprefix("<")) * UNITS.get(unit, 1)


def digits(text: str) -> int:
    """Count the significant digits of the number in a text."""
    return len(re.sub(r"\D", "", text.partition(" ")[0]).lstrip("0"))


FORMATS: tuple[tuple[Callable[[float], str], st.SearchStrategy[float], float], ...] = (
    (duration, TIMES, 1.0),
    (quantity, VALUES, 1.0),
    (rough, VALUES, 1.0),
    (plain_number, VALUES, 1.0),
    (units.share, VALUES.filter(lambda part: part < 10), 100.0),
    (lambda value: units.significant(value, 3), VALUES, 1.0),
)
NAMES = ("duration", "quantity", "rough", "plain_number", "share", "significant")


@pytest.mark.parametrize(("text", "values", "scale"), FORMATS, ids=NAMES)
@given(st.data())
def test_no_number_is_a_power_of_ten_and_a_larger_one_never_reads_smaller(text, values, scale, data):
    low, high = sorted((data.draw(values), data.draw(values)))
    assert not POWER.search(text(low))
    assert written(text(low)) <= written(text(high))


@pytest.mark.parametrize(("text", "values", "scale"), FORMATS, ids=NAMES)
@given(st.data())
def test_a_number_is_read_back_within_half_of_its_last_digit(text, values, scale, data):
    value = data.draw(values)
    said = text(value)
    if said.startswith("<"):
        assert value * scale < written(said)
        return
    number, _, unit = said.partition(" ")
    step = 10.0 ** -len(number.partition(".")[2]) * UNITS.get(unit, 1)
    # A value just below 100 % never reads as 100 %: it is truncated, not rounded.
    most = step if 99.4 < value * scale < 100 and "%" in said else step / 2
    assert abs(written(said) - value * scale) <= most * (1 + 1e-6)


@given(TIMES)
def test_times_have_three_digits_except_whole_nanoseconds_and_many_seconds(ns):
    said = duration(ns)
    if said.endswith("ns"):
        assert said == f"{ns:.0f} ns"
    else:
        assert digits(said) == 3 or ns >= 1000 * NS_PER_S


@given(VALUES)
def test_quantities_have_two_to_four_digits_or_are_whole(value):
    said = quantity(value)
    assert 2 <= digits(said) <= 4 or "." not in said


def _formats(path: Path) -> list[str]:
    """Return the formats of every f-string in a file, or none where nothing looks like `:g` or `:.3e`."""
    text = path.read_text(encoding="utf-8")
    if not re.search(r"[:,.\d}][ge]}", text):
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
            found.append("".join(str(part.value) for part in parts if isinstance(part, ast.Constant)))
    return found


# Not figures for people: rounding to digits, C++'s own format, tensor contents, datatype limits, and the classic
# commands, whose formats are fixed.
EXCEPT = {
    "base/units.py": "the formatter itself",
    "report/format.py": "decimal, of the classic reports",
    "find/search.py": "rounds a load to four digits",
    "stats/doubts.py": "rounds a time to two digits",
    "diagnose/bottleneck.py": "rounds a bound to three digits",
    "report/page.py": "rounds a tick",
    "measure/preview.py": "elements of tensors",
    "model/numbers.py": "the limits of datatypes",
    "report/foreign/mlperf.py": "a rate as loadgen writes it",
    "tune/trial.py": "the classic word for a load",
}


def test_only_the_formatter_chooses_how_numbers_are_written():
    """`:g` and `:.3g` turn into powers of ten when a value is large or small."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "dialects" not in path.parts
        and any(re.fullmatch(r",?(\.\d*)?[ge]", each) for each in _formats(path))
    }
    assert found == set(EXCEPT)
