"""Events that are recognised without being parsed mean what parsing them would say."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.services.alike import Alike
from inferometer.services.openai_reply import OpenAiReader
from inferometer.services.traffic import Reply
from inferometer.wire.http1 import CHUNKED, Head

KEY = b'"content"'


def learned(data: bytes, word: str) -> Alike:
    alike = Alike()
    alike.learn(data, KEY, word)
    return alike


FIRST = b'{"id":"x","delta":{"content":"one"},"end":null}'
EVENTS = [
    (b'{"id":"x","delta":{"content":"another word"},"end":null}', True),
    (b'{"id":"x","delta":{"content":""},"end":null}', False),
    (b'{"id":"y","delta":{"content":"one"},"end":null}', False),
    (b'{"id":"x","delta":{"content":"one"},"end":"stop"}', False),
    (b'{"id":"x","delta":{"content":"a","b":"c"},"end":null}', False),
    (b'{"id":"x","delta":{"content":"\\n"},"end":null}', False),
    (b'{"id":"x","delta":{"content":"\xc3\xbc"},"end":null}', False),
    (b'{"id":"x","delta":{"content":"\x01"},"end":null}', False),
    (b'{"id":"x","delta":{"content":null},"end":null}', False),
    (b'{"id":"x","delta":{"content":"one"},"end":null} ', False),
    (b'{"id":"x","delta":{"content":"one', False),
    (b"", False),
]


@pytest.mark.parametrize(("event", "is_alike"), EVENTS)
def test_only_the_same_event_with_another_plain_word_is_alike(event: bytes, is_alike: bool):
    assert learned(FIRST, "one").has_word(event) == is_alike
    spaced = FIRST.replace(b'"content":', b'"content": ')
    assert learned(spaced, "one").has_word(event.replace(b'"content":', b'"content": ')) == is_alike


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b'{"content":"one","more":{"content":"one"}}', "one"),  # which of them?
        (b'{"content":"o\\u006ee"}', "one"),
        (b'{"content":"\xc3\xbc"}', "\u00fc"),
        (b'{"content":["one"]}', "two"),
    ],
)
def test_what_is_not_plain_is_not_learned(data: bytes, word: str):
    assert not learned(data, word).has_word(data)


def test_after_a_few_events_that_differ_nothing_more_is_learned():
    alike = Alike()
    for number in range(10):
        alike.learn(b'{"n":%d,"content":"a"}' % number, KEY, "a")
    assert alike.has_word(b'{"n":3,"content":"b"}')
    assert not alike.has_word(b'{"n":9,"content":"b"}')


# --- the reader with it and without it

HEAD = Head(200, "OK", (("content-type", "text/event-stream"),), CHUNKED, True)
WORDS = st.one_of(st.sampled_from(["a", "b c", "", '"', "\\", "\u00fc", "\n"]), st.text(max_size=5))
CHOICES = st.one_of(
    st.builds(lambda word: {"index": 0, "delta": {"content": word}, "finish_reason": None}, WORDS),
    st.builds(lambda word: {"index": 0, "text": word}, WORDS),
    st.builds(lambda word: {"delta": {"content": word}, "finish_reason": "stop"}, WORDS),
    st.builds(lambda word: {"delta": {"content": word, "tool_calls": [1]}}, WORDS),
)
DOCUMENTS = st.one_of(
    st.builds(lambda choice: {"id": "x", "choices": [choice]}, CHOICES),
    st.builds(lambda choice: {"choices": [choice], "usage": {"completion_tokens": 3}}, CHOICES),
    st.builds(lambda one, two: {"choices": [one, two]}, CHOICES, CHOICES),
    st.builds(lambda word: {"choices": [], "content": word, "error": word}, WORDS),
)


@given(st.lists(DOCUMENTS, max_size=12), st.booleans())
def test_a_reader_says_the_same_with_it_and_without_it(documents: list[Any], is_ascii: bool):
    def read(*, parses_all: bool) -> Reply:
        reading = OpenAiReader(keeps_message=parses_all).start(
            HEAD
        )  # who wants the message parses every event
        for number, document in enumerate(documents):
            text = json.dumps(document, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
            reading.receive(b"data: " + text + b"\n\n", number)
        return reading.end()

    assert read(parses_all=False) == read(parses_all=True)._replace(message=None)
