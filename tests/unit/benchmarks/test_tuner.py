"""The benchmark's command for our tuner is one that the tuner takes."""

from benchmarks.tuner import our_words
from inferometer.cli import main
from tests.support.commands import call_here


def test_our_tuner_takes_the_words_of_the_benchmark() -> None:
    ended = call_here(main.main, *our_words("127.0.0.1:1"), "--show-config")
    assert ended.code == 0, ended.stderr
    assert "instances" in ended.stdout
