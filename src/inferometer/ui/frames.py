"""Reports in sandboxed frames, which cannot reach the store or the token."""

import base64
import hashlib

THEMES = ("light", "dark")
_OPENING = '<html lang="en">'


def framed(report: str, theme: str) -> str:
    """A report page without its own header, in the colours of the surrounding page."""
    chosen = f' data-theme="{theme}"' if theme in THEMES else ""
    return report.replace(_OPENING, f'{_OPENING[:-1]} data-framed="yes"{chosen}>', 1)


def policy(report: str) -> str:
    """The content security policy of a report, which only allows the script at its end."""
    script = report.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
    )
