import pytest

from inferometer.cli.measure import COMMAND
from inferometer.store.words import kept_words


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("h:1 m -c 1,2", "measure h:1 m --concurrency 1,2"),
        ("h:1 m --grpc -vv", "measure h:1 m --grpc --verbose --verbose"),
        ("h:1 -H Authorization:secret", "measure h:1 --header Authorization:***"),
        ("h:1 -Hsecret", "measure h:1 --header ***"),
        ("http://me:secret@h:1/v1 m", "measure http://***@h:1/v1 m"),
        ("-u https://secret@h", "measure --url https://***@h"),
        ("h:1 --header Authorization:secret", "measure h:1 --header Authorization:***"),
        ("h:1 --input-data a.json", "measure h:1 --data a.json"),
    ],
)
def test_a_command_line_is_stored_without_secrets(given: str, kept: str) -> None:
    assert " ".join(kept_words("measure", given.split(), COMMAND)) == kept
