"""Detection of a text server that does not list its models at `/v1/models`, by harmless requests.

Some servers list their models at another path. Those without a list refuse a request without content, but with another
status than a request to an unknown path.
"""

from typing import Any, NamedTuple

from inferometer.base.errors import PeerError
from inferometer.base.text import decode_json
from inferometer.services.apis import BY_NAME
from inferometer.services.endpoint import Connection
from inferometer.services.http_control import HttpControl
from inferometer.services.text_api import Api

LISTED = ("ollama", "tgi", "tei-embed", "tei-rerank")
"""APIs whose servers have a list of models, at a path of their own."""

REFUSED = ("chat", "completions", "responses", "anthropic", "embeddings")
"""APIs whose path no other server has."""

NOWHERE = "/v1/inferometer-looks-around"  # a path that no server has
UNNAMED = "default"
_NO_PATH = (404, 405, 501)
_NO_CONTENT = (400, 422)


class FoundApi(NamedTuple):
    """The API of a text server, and one of its models."""

    api: Api
    model: str


def maybe_text_server(connection: Connection, timeout_s: float) -> FoundApi | None:
    """Return the API of a text server; None if it is another server, or does not answer."""
    control = HttpControl(connection._replace(timeout_s=timeout_s))
    try:
        return _maybe_listed(control) or _maybe_refusing(control)
    except PeerError:
        return None


def _maybe_listed(control: HttpControl) -> FoundApi | None:
    for path in dict.fromkeys(BY_NAME[name].models_path for name in LISTED):
        status, document = _asked(control, "GET", path)
        if status != 200 or not isinstance(document, dict):
            continue
        models = document.get("models")
        if path == BY_NAME["ollama"].models_path and isinstance(models, list):
            names = [
                row["name"] for row in models if isinstance(row, dict) and isinstance(row.get("name"), str)
            ]
            return FoundApi(BY_NAME["ollama"], names[0]) if names else None
        if path == BY_NAME["tgi"].models_path and isinstance(document.get("model_id"), str):
            return FoundApi(BY_NAME[_hugging_face_api(document)], document["model_id"])
    return None


def _hugging_face_api(document: dict[str, Any]) -> str:
    """Return the API of a server by its description: TEI says what its model is for, TGI does not."""
    kind = document.get("model_type")
    if not isinstance(kind, dict):
        return "tgi"
    return "tei-rerank" if "reranker" in kind else "tei-embed"


def _maybe_refusing(control: HttpControl) -> FoundApi | None:
    nowhere, _ = _asked(control, "POST", NOWHERE, b"{}")
    for name in REFUSED:
        api = BY_NAME[name]
        status, document = _asked(control, "POST", f"/{api.path}", b"{}")
        is_object = isinstance(document, dict)
        if is_object and status == 200 and _is_answer(api, document):
            model = document.get("model")
            return FoundApi(api, model if isinstance(model, str) and model else UNNAMED)
        misses_content = status == 500 or (is_object and status in _NO_CONTENT)
        if misses_content and nowhere in _NO_PATH:
            return FoundApi(api, UNNAMED)
    return None


def _is_answer(api: Api, document: dict[str, Any]) -> bool:
    try:
        found = api.form.whole(document)
    except (PeerError, LookupError, TypeError, ValueError):
        return False
    return bool(found.answer) and not found.error


def _asked(control: HttpControl, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    status, text = control.exchange(method, path, body)
    try:
        return status, decode_json(text)
    except ValueError:
        return status, None
