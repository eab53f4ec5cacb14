"""Markdown: words and tables, and names that stay text."""

import pytest

from inferometer.report.document import (
    Code,
    Column,
    Depth,
    Document,
    Facts,
    Message,
    Messages,
    Section,
    Table,
)
from inferometer.report.markdown import markdown, markdown_line
from inferometer.report.saved import to_markdown
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("ensemble_image", "ensemble_image"),
        ("_hidden_", r"\_hidden\_"),
        ("a|b", r"a\|b"),
        ("<b>*x*</b>", r"\<b\>\*x\*\</b\>"),
        ("[link](to)", r"\[link\](to)"),
        ("two\nlines  here", "two lines here"),
        (r"C:\n`x`", r"C:\\n\`x\`"),
    ],
)
def test_text_is_never_markup(text, written):
    assert markdown_line(text) == written


def test_a_document_in_markdown():
    columns = (Column("Name", is_number=False), Column("Time"))
    page = Document(
        "Measurement",
        "model|1",
        ("http",),
        "It is fast.",
        (
            Section(
                "one",
                "One",
                "Lead.",
                (
                    Table("Rows", columns, (("a", "1 ms"), ("b|c", "2 ms"))),
                    Table("Folded", columns, (("d", "3 ms"),), Depth.DETAIL),
                    Table("On screen", columns, (("e", "4 ms"),), Depth.LISTING),
                    Facts("Host", (("Cores", "2"),)),
                    Messages((Message("slow", "measure longer"), Message("Done.", "Go on."))),
                    Messages((Message("first"),), is_ranked=True),
                    Code("config.pbtxt", "a ``` b"),
                ),
            ),
            Section("two", "Nothing to say here"),
        ),
        tool="inferometer 0",
    )
    assert (
        markdown(page)
        == r"""# model\|1

Measurement · http

**It is fast.**

## One

Lead.

**Rows**

| Name | Time |
|---|---:|
| a | 1 ms |
| b\|c | 2 ms |

<details><summary>Folded</summary>

| Name | Time |
|---|---:|
| d | 3 ms |

</details>

**Host**

|  |  |
|---|---|
| Cores | 2 |

- slow: measure longer
- Done. Go on.

1. first

**config.pbtxt**

````
a ``` b
````

Made by inferometer 0 from a saved result.
"""
    )


@pytest.mark.parametrize(
    "report", [sample_result(), sample_diagnosis(), sample_comparison()], ids=lambda it: type(it).__name__
)
def test_every_row_of_every_table_has_as_many_cells_as_its_head(report):
    import re

    block: list[int] = []
    for line in [*to_markdown(report).splitlines(), ""]:
        if line.startswith("|"):
            block.append(len(re.findall(r"(?<!\\)\|", line)))
        elif block:
            assert len(set(block)) == 1
            block = []
