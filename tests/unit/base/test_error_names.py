"""Errors carry the options they are about; each interface spells them in its own way."""

import pickle

import pytest

from inferometer.base.errors import Name, PeerError, UsageError
from inferometer.cli.find import COMMAND as FIND
from inferometer.cli.measure import COMMAND
from inferometer.options.names import option_name, with_names

RATE = option_name("request_rate")


def test_an_error_has_a_default_spelling_and_carries_its_options():
    error = UsageError(f"{RATE} is 0", remedy=with_names("raise it, or use {protocol:grpc}"))
    assert str(error) == "--request-rate-range is 0; raise it, or use -i grpc"
    assert (error.message, error.remedy) == ("--request-rate-range is 0", "raise it, or use -i grpc")
    assert [(name.field, name.value) for name in error.about] == [("request_rate", ""), ("protocol", "grpc")]
    assert error.spelled(lambda name: name.field) == "request_rate is 0; raise it, or use protocol"


def test_the_options_survive_a_prefix_and_a_process():
    error = UsageError(f"{RATE} is 0")
    error.at("classes.a")
    again = pickle.loads(pickle.dumps(error))
    assert again.spelled(COMMAND.spell) == "classes.a: --rate is 0"
    wrapped = error.wrapped("no data: ", PeerError)
    assert (type(wrapped), wrapped.spelled(COMMAND.spell)) == (PeerError, "no data: classes.a: --rate is 0")


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        (option_name("request_rate"), "--rate"),
        (option_name("data.sources"), "--data"),
        (option_name("speed"), "--speed"),
        (option_name("protocol", "grpc"), "--grpc"),
        (option_name("protocol", "http"), "-i http"),
        (option_name("--grpc"), "--grpc"),
        (option_name("--data"), "--data"),
        (option_name("-b", "1"), "-b 1"),
        (option_name("--check-python"), "--check-python"),
        (option_name("--serve"), "--serve"),  # of another command
        (option_name("model"), "-m"),
        (Name("-c", "concurrency"), "-c"),  # as the user wrote it
        (Name("--concurrency-range", "concurrency"), "--concurrency"),
        (Name("--start", "own.start"), "--start"),  # of another command
    ],
)
def test_a_command_spells_options_as_in_its_help(name, spelled):
    assert COMMAND.spell(name) == spelled


def test_a_command_spells_its_own_options():
    assert FIND.spell(Name("--start", "own.start")) == "--start"


def test_braces_in_other_text_are_kept():
    assert UsageError('{"a": 1} is not {b c}').message == '{"a": 1} is not {b c}'
