"""Texts that are markup, formulas or commands in some format, and reports with such texts in all foreign fields."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

NASTY = (
    "[click](http://evil.example)",
    "![x](javascript:alert(1))",
    "<http://evil.example>",
    "www.evil.example and https://evil.example and a@evil.example",
    "<img src=x onerror=alert(1)>",
    "</td></tr></table></details><script>alert(1)</script>",
    '\'" onmouseover="alert(1)',
    "--></style><!--",
    "a|b|c | d",
    "line\n| a | b |\n|---|---|\n# head\r\n- item\n\n\n```\ncode",
    "`code` ``x`` ```",
    "*a* **b** _c_ ~~d~~ $e$ \\",
    "# head",
    "- item",
    "+ item",
    "1. item",
    "---",
    "===",
    "&lt;b&gt; &amp; &#60;",
    "[bold red]x[/bold red] [/] [link=http://evil.example]y",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x1b\\z\x1b]8;;\x1b\\ \x9b31m",
    "\x00\x01\x07\x08\x0b\x0c\x7f\x85",
    "\u202egnp.exe \u2066x\u2069 \u2028 \u2029 \ufeff",
    "\ud800 \udfff \uffff \ufffe",
    "=cmd|'/c calc'!A1",
    "+1+1",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(A1:A2)",
    "\t=1+1",
    "\r=1+1",
    "a,b\"c';d",
    "{{ 7 * 7 }} {% for x in y %} {#",
    "%s %d {0} {name!r}",
    "]]> <![CDATA[ <!ENTITY x>",
    "",
    " ",
    "x" * 3000,
    "../../../../etc/passwd",
)

CODE_WORDS = frozenset(
    (
        "mode",
        "command",
        "started_at",
        "kind",
        "outcome",
        "verdict",
        "device",
        "service_kind",
        "protocol",
        "state",
    )
)
"""Fields whose values are words of our own, not of others."""

Choose = Callable[[str], str]
"""The text to have instead."""


def with_texts(value: Any, choose: Choose) -> Any:
    """Replace every text of the value that may come from outside."""
    if isinstance(value, str):
        return choose(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            field.name: with_texts(getattr(value, field.name), choose)
            for field in dataclasses.fields(value)
            if field.init and field.name not in CODE_WORDS
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {
            name: part if name in CODE_WORDS else with_texts(part, choose) for name, part in value.items()
        }
    if isinstance(value, tuple):
        return tuple(with_texts(part, choose) for part in value)
    if isinstance(value, list):
        return [with_texts(part, choose) for part in value]
    return value
