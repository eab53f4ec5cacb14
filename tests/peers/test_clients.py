"""The official clients of OpenAI, Anthropic, Ollama and Cohere read what our stand-ins send."""

import json
import os
import subprocess

from tests.peers.conftest import DEADLINE_S, HERE, environment
from tests.support.text_apis import TextServer

WORDS = "one two three"
READ = {
    "chat": ["hmso", WORDS, '{"a":1}', 9, 15],
    "chat whole": [WORDS, 9],
    "completions": WORDS,
    "responses": ["hmso", WORDS, '{"a":1}', 9, 15],
    "responses whole": WORDS,
    "transcriptions": WORDS,
    "transcriptions whole": WORDS,
    "embeddings": [[0.5, 0.25], 4],
    "anthropic": ["hmso", WORDS, {"a": 1}, 9, 3, 5, 7],
    "anthropic whole": ["thinking", "text", "tool_use"],
    "ollama": ["hmso", WORDS, 1, 9, 15],
    "ollama whole": WORDS,
    "ollama-generate": [WORDS, 9],
    "ollama-embed": [0.5, 0.25],
    "cohere-rerank": [0, 0.5],
    "cohere-embed": [[0.5, 0.25], 4],
}


def test_the_official_clients_read_the_stand_ins() -> None:
    clean = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and "proxy" not in name.lower()
    }
    with TextServer() as fake:
        done = subprocess.run(
            [environment("clients"), HERE / "official_clients.py", fake.address],
            capture_output=True,
            text=True,
            env=clean,
            timeout=4 * DEADLINE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == READ
