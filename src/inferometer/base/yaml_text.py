"""YAML that others wrote, read in bounded time and memory.

Two things in YAML grow without bound: a reference stands for all it refers to, so a few lines can stand for billions of
values, and merging (`<<`) writes them out while the document is built; and numbers in base 60 take quadratic time.
Both are checked on the parsed nodes, before values are made of them.
"""

import re
from typing import Any

MOST_VALUES = 100_000
"""Of a document, everything counted as often as it is referred to."""
DEEPEST = 64
"""Brackets inside each other."""
_BRACKET = re.compile(r"[\[\]{}]")
_LONGEST_NUMBER = 400
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What PyYAML raises besides its own errors, for example for `!!bool maybe` and `!!timestamp x`."""


class YamlError(ValueError):
    """The text is not YAML, or stands for too much; `line` counts from 1, and is None where no line is to blame."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line


def load_yaml(text: str) -> Any:
    """The document, or a YamlError and nothing else."""
    import yaml  # takes its time

    try:
        _check_depth(text)
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _check(root)
        return loader.construct_document(root)
    except YamlError:
        raise
    except RecursionError:
        raise YamlError("it is nested too deep") from None
    except yaml.MarkedYAMLError as error:
        raise YamlError(str(error.problem or error.context), _line(error.problem_mark)) from error
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from error
    except _BROKEN as error:
        raise YamlError(f"a value does not fit its type ({' '.join(str(error).split())})") from error


def _check_depth(text: str) -> None:
    """Before parsing: with many open brackets on a line PyYAML goes through all of them at every character."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST:
            raise YamlError(f"it is nested more than {DEEPEST} deep", text.count("\n", 0, found.start()) + 1)


def _check(root: Any) -> None:
    """Refuses a document that stands for too many values, or contains itself."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if isinstance(node.value, str):
            if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
                raise YamlError(
                    f"a number may have {_LONGEST_NUMBER} characters, and this one has {len(node.value):,}",
                    _line(node.start_mark),
                )
            return 1
        if id(node) not in sizes:
            sizes[id(node)] = MOST_VALUES  # until it is known: a value that contains itself has no end
            total = 1
            for part in node.value:
                total += size(part[0]) + size(part[1]) if isinstance(part, tuple) else size(part)
            sizes[id(node)] = total
        if sizes[id(node)] >= MOST_VALUES:
            raise YamlError(
                f"it stands for more than {MOST_VALUES:,} values, with what its references refer to",
                _line(node.start_mark),
            )
        return sizes[id(node)]

    size(root)


def _line(mark: Any) -> int | None:
    return None if mark is None else mark.line + 1
