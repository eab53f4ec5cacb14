"""What the user asked the requests to carry."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inferometer.base.errors import UsageError
from inferometer.base.options import (
    Dialect,
    Option,
    as_given,
    choice,
    data_source,
    existing_file,
    shape,
    whole,
)

GENERATED = ("random", "zero")


def named_source(name: str, text: str) -> tuple[str, str]:
    """`NAME=@FILE` or `NAME=value,value`."""
    tensor, equals, source = text.partition("=")
    if not tensor or not equals or source == "@":
        raise UsageError(
            f"Failed to parse {name}. There must be an input name, '=' and a value, but got '{text}'",
            remedy="write it like IMAGE=@photo.jpg, IMAGE=@'photos/*.jpg' or SCALE=0.5",
        )
    return tensor, source


@dataclass(frozen=True, slots=True)
class DataOptions:
    """`sources` holds one of random and zero, the paths of JSON files, or that of a directory."""

    sources: tuple[str, ...] = ("random",)
    files: tuple[tuple[str, str], ...] = ()  # (input, `@` and a path or pattern, or the values themselves)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of inputs with variable dimensions
    string_length: int = 128
    string_data: str | None = None  # every element of BYTES inputs, instead of random strings
    seed: int = 0
    pool: int = 8  # different requests made when random
    prompts: str | None = None  # file of prompts
    prompt_tokens: int | None = None  # words of each prompt that is made


OPTIONS = (
    Option(
        ("-b",),
        "batch",
        "Items per request.",
        whole(least=1, noun="batch size"),
        "COUNT",
        "1",
    ),
    Option(
        ("--input-data",),
        "data.sources",
        "What to send: random, zero, a JSON file of requests, or a directory with a file for each input. "
        "JSON files may be given several times. A number that does not fit the datatype of its input, such as 256 for "
        "UINT8, is refused: the classic tool sends it truncated.",
        data_source,
        "SOURCE",
        "random",
        repeatable=True,
    ),
    Option(
        ("--input",),
        "data.files",
        "Send this in one input: NAME=@photo.jpg, NAME=@'photos/*.jpg' (a request each), .npy, .npz, .wav, "
        ".txt (a request per line), any other file as it is, or NAME=value,value. May be given several times.",
        named_source,
        "NAME=@FILE",
        repeatable=True,
        dialect=Dialect.OURS,
    ),
    Option(
        ("--shape",),
        "data.shapes",
        "Shape of an input with variable size, as name:d1,d2. May be given several times.",
        shape,
        "SHAPE",
        repeatable=True,
    ),
    Option(
        ("--string-length",),
        "data.string_length",
        "Length of random strings.",
        whole(least=1),
        "COUNT",
        "128",
    ),
    Option(
        ("--string-data",),
        "data.string_data",
        "Send this string in every element of BYTES inputs.",
        as_given,
        "STRING",
    ),
    Option(
        ("--seed",),
        "data.seed",
        "Start of the random values: same seed, same bytes.",
        whole(least=0),
        "NUMBER",
        "0",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--prompts",),
        "data.prompts",
        "Prompts to send with --service-kind openai: a file with one per line, or of JSON lines with "
        '"prompt" or "messages".',
        existing_file,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--prompt-tokens",),
        "data.prompt_tokens",
        "Length of the prompts made for --service-kind openai: so many common words, each about a token.",
        whole(least=1),
        "COUNT",
        "100",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--shared-memory",),
        "shared_memory",
        "Pass tensors in memory shared with the server: none, system or cuda.",
        choice("none", "system", "cuda"),
        "KIND",
        "none",
    ),
    Option(
        ("--output-shared-memory-size",),
        "output_shared_memory_size",
        "Bytes for an output of unknown size in shared memory.",
        whole(least=0),
        "BYTES",
        "102400",
    ),
    Option(
        ("--input-tensor-format",),
        "input_format",
        "How HTTP requests carry tensors: binary or json, in any case.",
        choice("binary", "json", any_case=True),
        "FORMAT",
        "binary",
    ),
    Option(
        ("--output-tensor-format",),
        "output_format",
        "How HTTP replies carry tensors: binary or json, in any case.",
        choice("binary", "json", any_case=True),
        "FORMAT",
        "binary",
    ),
    Option(
        ("--data-directory",),
        "data.sources",
        "Directory of data; use --input-data.",
        as_given,
        "DIR",
        repeatable=True,
        deprecated=True,
    ),
    Option(
        ("-z",),
        "data.sources",
        "Send zeros; use --input-data zero.",
        value="zero",
        repeatable=True,
        deprecated=True,
    ),
)
