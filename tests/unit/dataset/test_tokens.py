"""Texts of an exact number of tokens, for every common kind of tokenizer."""

import json
from random import Random

import pytest
from tokenizers import Tokenizer

from inferometer.base.errors import UsageError
from inferometer.dataset.tokens import FEWEST_WORDS, TokenizerFile, WordCounter, open_tokenizer
from tests.support.vocabularies import BUILDS, byte_level, saved, word_level, wordless


@pytest.fixture(scope="module", params=sorted(BUILDS))
def opened(request, tmp_path_factory):
    """Return the tokenizer, and the library's own of the same file to count with."""
    path = saved(BUILDS[request.param], tmp_path_factory.mktemp(request.param))
    theirs = Tokenizer.from_file(str(path))
    theirs.no_truncation()
    return TokenizerFile(str(path)), lambda text: theirs.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 17, 512, 5000])
def test_a_text_has_exactly_the_requested_tokens(opened, tokens):
    ours, ids = opened
    for seed in range(5):
        text = ours.text(tokens, Random(seed))
        assert len(ids(text)) == tokens == ours.count(text)


def test_counts_of_joined_texts_add_up_and_beginnings_keep_their_tokens(opened):
    ours, ids = opened
    draw = Random(1)
    for first, second in ((1, 1), (7, 1), (1, 30), (200, 3)):
        start = ours.text(first, draw)
        whole = [ids(start + ours.text(second, draw)) for _ in range(5)]
        assert {len(found) for found in whole} == {first + second}
        assert {tuple(found[:first]) for found in whole} == {tuple(ids(start))}


def test_every_word_may_follow_every_other_at_the_start_and_later(opened):
    ours, ids = opened
    first = ours.words[0]
    for one in ours.words:
        for other in ours.words:
            assert len(ids(one + other)) == 2, (one, other)
            assert len(ids(first + one + other)) == 3, (one, other)


def test_every_word_is_a_different_token(opened):
    ours, ids = opened
    assert len(ours.words) >= FEWEST_WORDS
    assert len({tuple(ids(word)) for word in ours.words}) == len(ours.words)
    after = [tuple(ids(ours.words[0] + word)) for word in ours.words]
    assert len({found[1:] for found in after}) == len(ours.words)


def test_same_seed_same_text(opened):
    ours, _ = opened
    assert ours.text(50, Random(3)) == ours.text(50, Random(3)) != ours.text(50, Random(4))


def test_special_tokens_are_not_counted(tmp_path):
    path = saved(byte_level, tmp_path)
    ours = TokenizerFile(str(path))
    text = ours.text(100, Random(0))
    theirs = Tokenizer.from_file(str(path))
    theirs.no_truncation()
    assert len(theirs.encode(text).ids) == 101  # with <s>
    assert ours.count(text) == 100


def test_a_folder_works_like_the_file(tmp_path):
    saved(word_level, tmp_path)
    found = open_tokenizer(str(tmp_path))
    assert found.name == str(tmp_path / "tokenizer.json")
    assert found.is_exact


def test_without_a_tokenizer_words_count():
    ours = open_tokenizer(None)
    assert isinstance(ours, WordCounter)
    assert (ours.name, ours.is_exact) == ("words", False)
    assert ours.count(ours.text(7, Random(0)) + ours.text(5, Random(1))) == 12


@pytest.mark.parametrize(
    ("content", "message", "remedy"),
    [
        (None, "no such file:", "the folder that contains one"),
        ("{", "is not a tokenizer", "tokenizer.json of a model"),
        (json.dumps({"version": "1.0"}), "is not a tokenizer", "tokenizer.json of a model"),
        (wordless().to_str(), "fewer than 8 words", "leave out --tokenizer"),
    ],
)
def test_an_invalid_tokenizer_is_refused(tmp_path, content, message, remedy):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=message) as refused:
        open_tokenizer(str(path))
    assert remedy in refused.value.remedy
