"""Tokenizers of every common kind, trained on a few sentences."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from inferometer.dataset.tokens import COMMON

SENTENCES = [" ".join(COMMON[start:] + COMMON[:start]) for start in range(0, len(COMMON), 3)] * 4
_BEGIN = "<s>"
_UNKNOWN = "[UNK]"


def byte_level() -> Tokenizer:
    """Like GPT-2 and Llama 3: adds a start token, and would truncate long texts."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _train(
        made,
        trainers.BpeTrainer(
            vocab_size=900, initial_alphabet=alphabet, special_tokens=[_BEGIN], show_progress=False
        ),
    )
    begin = made.token_to_id(_BEGIN)
    made.post_processor = processors.TemplateProcessing(
        single=f"{_BEGIN} $A", special_tokens=[(_BEGIN, begin)]
    )
    made.enable_truncation(16)
    return made


def unsplit() -> Tokenizer:
    """Like Llama 2: puts a space before every text and does not split at spaces, so a leading space is a token."""
    trained = Tokenizer(models.BPE(unk_token=_UNKNOWN))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    _train(trained, trainers.BpeTrainer(vocab_size=700, special_tokens=[_UNKNOWN, "▁▁"], show_progress=False))
    bare = Tokenizer(trained.model)
    bare.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bare.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return bare


def unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    _train(
        made,
        trainers.UnigramTrainer(
            vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
        ),
    )
    return made


def word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token=_UNKNOWN))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    _train(made, trainers.WordPieceTrainer(vocab_size=600, special_tokens=[_UNKNOWN], show_progress=False))
    return made


def word_level() -> Tokenizer:
    made = Tokenizer(models.WordLevel(unk_token=_UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    _train(made, trainers.WordLevelTrainer(vocab_size=150, special_tokens=[_UNKNOWN], show_progress=False))
    return made


def numbered() -> Tokenizer:
    """Words of no language."""
    words = [_UNKNOWN, *(f"w{number}" for number in range(300))]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, _UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def letters() -> Tokenizer:
    """Bytes only: letters are tokens, but words are not."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _train(made, trainers.BpeTrainer(vocab_size=256, initial_alphabet=alphabet, show_progress=False))
    return made


def wordless() -> Tokenizer:
    """Numbers only: no text of a given length can be built."""
    made = Tokenizer(models.WordLevel({_UNKNOWN: 0, "1": 1, "2": 2}, unk_token=_UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


BUILDS: dict[str, Callable[[], Tokenizer]] = {
    build.__name__: build
    for build in (byte_level, unsplit, unigram, word_piece, word_level, numbered, letters)
}


def saved(build: Callable[[], Tokenizer], folder: Path) -> Path:
    """Save one of these tokenizers and return its file."""
    path = folder / "tokenizer.json"
    path.write_text(_trained(build))
    return path


@cache
def _trained(build: Callable[[], Tokenizer]) -> str:
    return build().to_str()


def _train(made: Tokenizer, trainer: trainers.Trainer) -> None:
    made.train_from_iterator(SENTENCES, trainer)
