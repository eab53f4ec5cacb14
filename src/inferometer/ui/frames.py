"""Reports inside a page: each in a frame without rights, so that nothing in it could reach the store or the token."""

import base64
import hashlib

THEMES = ("light", "dark")
_OPENING = '<html lang="en">'


def framed(report: str, theme: str) -> str:
    """The page of a report without its own bar, in the colours of the page around it."""
    chosen = f' data-theme="{theme}"' if theme in THEMES else ""
    return report.replace(_OPENING, f'{_OPENING[:-1]} data-framed="yes"{chosen}>', 1)


def policy(report: str) -> str:
    """What the browser lets the report do: run the one script that stands at its end, and nothing else."""
    script = report.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
    )
