"""Requests that a Triton says it has answered."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterable

SETTLED_S = 0.3  # without a change
DEADLINE_S = 30.0


def success_counts(address: str, models: Iterable[str]) -> dict[str, int]:
    """Return the successes of each model once they have stopped changing.

    Triton counts a request shortly after it has answered it, and finishes those that an earlier client abandoned.
    """
    models, pause = tuple(models), threading.Event()
    found, since, deadline = _read(address, models), time.monotonic(), time.monotonic() + DEADLINE_S
    while time.monotonic() < min(since + SETTLED_S, deadline):
        pause.wait(SETTLED_S / 3)
        later = _read(address, models)
        if later != found:
            found, since = later, time.monotonic()
    return found


def _read(address: str, models: Iterable[str]) -> dict[str, int]:
    return {model: _read_one(address, model) for model in models}


def _read_one(address: str, model: str) -> int:
    with urllib.request.urlopen(f"http://{address}/v2/models/{model}/stats", timeout=10) as reply:
        return int(json.load(reply)["model_stats"][0]["inference_stats"]["success"]["count"])
