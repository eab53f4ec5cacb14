"""The engine of `tests.support.llm_engine` behind an OpenAI-style address on loopback, in real time.

    python -m tests.support.llm_server TOKEN --port PORT --max-num-seqs SLOTS

runs one with the metrics of vLLM. The token is in the command line, so that leftovers can be found.
"""

import argparse
import json
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Self

from inferometer.observe.llm_metrics import VLLM
from tests.support.llm_engine import AskedSequence, Engine, EngineSettings, metrics_page
from tests.support.openai import DONE, END, LAST_CHUNK, ROLE, chunk, event, usage
from tests.support.servers import Act, Request, ScriptedServer, Wire, answer, answer_json

# aiperf takes no event without its kind.
_TOKEN = chunk(
    event(
        {
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {"content": "a "}, "finish_reason": None}],
        }
    )
)


@dataclass(slots=True, eq=False)
class _Asked(AskedSequence):
    tokens: "queue.SimpleQueue[bool]" = field(default_factory=queue.SimpleQueue)  # True marks the last token


class LlmServer:
    """A server of streamed chat completions. Use as a context manager. With `dialect` None it has no metrics.

    With `prompt_tokens`, every prompt has that many. With `lengths`, the server chooses the length of every answer.
    `GET /late` returns the median delay of its latest steps in seconds.
    """

    def __init__(
        self,
        settings: EngineSettings,
        *,
        dialect: str | None,
        answer_tokens: int = 16,
        prompt_tokens: int | None = None,
        lengths: Callable[[], int] | None = None,
        port: int = 0,
    ) -> None:
        self.server = ScriptedServer(self._act, port=port)
        self._engine = Engine(settings)
        self._dialect = dialect
        self._answer_tokens = answer_tokens
        self._prompt_tokens = prompt_tokens
        self._lengths = lengths
        self._late_s = deque[float](maxlen=1000)
        self._news = threading.Condition()
        self._is_ended = False
        self._thread = threading.Thread(target=self._work, daemon=True)

    @property
    def address(self) -> str:
        return self.server.address

    def __enter__(self) -> Self:
        self.server.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._is_ended = True
            self._news.notify_all()
        self._thread.join()
        self.server.__exit__()

    def _work(self) -> None:
        due_s = time.monotonic()
        while True:
            with self._news:
                while self._engine.is_idle and not self._is_ended:
                    self._news.wait()
                    due_s = time.monotonic()
                if self._is_ended:
                    return
                due_s += self._engine.step()
            time.sleep(max(0.0, due_s - time.monotonic()))
            self._late_s.append(time.monotonic() - due_s)
            with self._news:
                running = list(self._engine.running)
                self._engine.finish_step(due_s)
            for sequence in running:
                assert isinstance(sequence, _Asked)
                sequence.tokens.put(sequence.is_done)

    def _act(self, request: Request) -> Act:
        if request.path == "/health":
            return answer(b"")
        if request.path == "/v1/models":
            return answer_json({"object": "list", "data": [{"id": "tiny"}]})
        if request.path == "/late":
            return answer_json(median(self._late_s or [0.0]))
        if request.path == "/metrics" and self._dialect is not None:
            with self._news:
                return answer(metrics_page(self._engine, self._dialect).encode())
        if request.method != "POST":
            return answer_json({"error": {"message": "no such path"}}, 404)
        payload = json.loads(request.body)
        content = payload["messages"][0]["content"]
        parts = [content] if isinstance(content, str) else [part["text"] for part in content]
        words = self._prompt_tokens or sum(len(part.split()) for part in parts)
        asked = payload.get("max_tokens", self._answer_tokens) if self._lengths is None else self._lengths()
        return lambda wire: self._answer(wire, _Asked(words, asked))

    def _answer(self, wire: Wire, asked: _Asked) -> None:
        with self._news:
            self._engine.add(asked)
            self._news.notify_all()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.send(chunk(ROLE))
        is_last = False
        while not is_last:
            try:
                is_last = asked.tokens.get(timeout=0.1)
            except queue.Empty:
                if wire.ended.is_set():
                    return
                continue
            wire.send(_TOKEN)
        wire.send(chunk(END + usage(asked.answer, asked.prompt) + DONE) + LAST_CHUNK)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("token")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-num-seqs", type=int, default=2)
    given = parser.parse_args()
    settings = EngineSettings(step_s=0.01, slots=given.max_num_seqs)
    with LlmServer(settings, dialect=VLLM, port=given.port):
        signal.pause()


if __name__ == "__main__":
    _main()
