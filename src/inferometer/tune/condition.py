"""Conditions on the values of a configuration, such as `slots*context <= 65536`: arithmetic and comparisons only."""

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.options.names import option_name

_LONGEST = 500  # characters
_FORM = "write a comparison of placeholders and numbers, such as 'slots*context <= 65536'"
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@frozen
class Condition:
    """A parsed condition."""

    text: str
    tree: ast.expr

    def holds(self, values: Mapping[str, Any]) -> bool:
        try:
            return bool(_value(self.tree, values))
        except (TypeError, ZeroDivisionError) as error:
            shown = ", ".join(f"{name}={value}" for name, value in values.items())
            raise UsageError(
                f"{option_name('--where')} '{self.text}' cannot be evaluated for {shown}: {error}",
                remedy=_FORM,
            ) from error


def parse_condition(text: str, names: Collection[str]) -> Condition:
    """Parse a condition that may use these names."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or not isinstance(tree, ast.Compare | ast.BoolOp | ast.UnaryOp):
        raise UsageError(f"{option_name('--where')} '{text}' is not a condition", remedy=_FORM)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in names:
            raise UsageError(
                f"{option_name('--where')} '{text}' names {node.id}, which is not varied",
                remedy=f"use {', '.join(names)}, or vary it with {option_name('--vary')} {node.id}=...",
            )
        if not isinstance(node, _ALLOWED):
            raise UsageError(
                f"{option_name('--where')} '{text}' has "
                f"'{ast.unparse(node) if isinstance(node, ast.expr) else text}', "
                "which is neither arithmetic nor a comparison",
                remedy=_FORM,
            )
    return Condition(text, tree)


_ALLOWED = (
    *(ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp),
    *(ast.Name, ast.Load, ast.Constant),
    *_BINARY,
    *_COMPARED,
)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return values[node.id]
        case ast.BinOp():
            left, right = _value(node.left, values), _value(node.right, values)
            if isinstance(left, str) or isinstance(right, str):
                raise TypeError("words can only be compared")
            return _BINARY[type(node.op)](left, right)
        case ast.UnaryOp():
            inner = _value(node.operand, values)
            return not inner if isinstance(node.op, ast.Not) else -inner
        case ast.BoolOp():
            parts = (bool(_value(part, values)) for part in node.values)
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        case ast.Compare():
            terms = [_value(part, values) for part in (node.left, *node.comparators)]
            pairs = zip(node.ops, terms, terms[1:], strict=False)
            return all(_COMPARED[type(sign)](left, right) for sign, left, right in pairs)
    raise TypeError(f"{ast.unparse(node)} is not supported")
