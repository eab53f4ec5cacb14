"""Reads foreign YAML in bounded time and memory.

Two things in YAML grow without bound. A reference repeats everything it refers to, so a few lines can represent
billions of values, and merging (`<<`) expands them while the document is built. Long numbers take quadratic time. Both
are checked on the parsed nodes, before values are built from them.

A number with colons is text, as in YAML 1.2: 1:16 is a range here, while YAML 1.1 reads it in base 60, as 76.
"""

import re
from typing import Any

MOST_VALUES = 100_000
"""Maximum number of values in a document, counting each one as often as it is referenced."""
DEEPEST = 64
"""Maximum depth of nested brackets."""
_BRACKET = re.compile(r"[\[\]{}]")
_LONGEST_NUMBER = 400
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions that PyYAML raises besides its own, for example for `!!bool maybe` and `!!timestamp x`."""


class YamlError(ValueError):
    """The text is not YAML, or expands too far; `line` counts from 1, and is None if no line is at fault."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line


def load_yaml(text: str, *, has_unique_keys: bool = False) -> Any:
    """Load a document, raising only YamlError. The last of several equal keys counts, unless `has_unique_keys`."""
    import yaml  # slow to import

    try:
        _check_depth(text)
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _check(root)
        if has_unique_keys:
            _check_keys(root)
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
    """Check the depth before parsing: PyYAML revisits every open bracket at every character."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST:
            raise YamlError(f"it is nested more than {DEEPEST} deep", text.count("\n", 0, found.start()) + 1)


def _check(root: Any) -> None:
    """Reject a document that expands to too many values, or contains itself."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if isinstance(node.value, str):
            if node.tag in _NUMBERS and ":" in node.value:
                node.tag = _TEXT
            if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
                raise YamlError(
                    f"a number has {len(node.value):,} characters, more than the limit of {_LONGEST_NUMBER}",
                    _line(node.start_mark),
                )
            return 1
        if id(node) not in sizes:
            sizes[id(node)] = MOST_VALUES  # until known: a value that contains itself is infinite
            total = 1
            for part in node.value:
                total += size(part[0]) + size(part[1]) if isinstance(part, tuple) else size(part)
            sizes[id(node)] = total
        if sizes[id(node)] >= MOST_VALUES:
            raise YamlError(
                f"it expands to more than {MOST_VALUES:,} values through its references",
                _line(node.start_mark),
            )
        return sizes[id(node)]

    size(root)


def _check_keys(root: Any) -> None:
    """Reject a mapping that has a key twice."""
    left, seen = [root], set[int]()
    while left:
        node = left.pop()
        if isinstance(node.value, str) or id(node) in seen:
            continue
        seen.add(id(node))
        names = set[str]()
        for part in node.value:
            key, value = part if isinstance(part, tuple) else (None, part)
            left.append(value)
            if key is None or not isinstance(key.value, str) or key.tag == _MERGE:
                continue
            if key.value in names:
                raise YamlError(f"'{key.value}' is given twice", _line(key.start_mark))
            names.add(key.value)


def _line(mark: Any) -> int | None:
    return None if mark is None else mark.line + 1
