"""What is asked of a model that makes text: prompts, and the tensors or lines that carry them."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.writing import write_file
from inferometer.dataset.payloads import WORDS, build_payloads
from inferometer.options.options import DataOptions

TEXT = "text_input"
LENGTHS = {"vllm": "sampling_parameters", "tensorrtllm": "max_tokens"}
"""By backend, the input that says how long an answer is to be."""

SHORT_ANSWER = 256  # tokens, where the model must be told a number and none was given


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of common words, each about a token, or those of a file."""

    count: int = 100
    mean: int = 550  # words
    deviation: float = 0.0
    seed: int = 0
    file: str | None = None
    output_tokens: int | None = None
    backend: str | None = None  # one of LENGTHS; None: as the model's inputs show
    is_streamed: bool = True

    def texts(self) -> list[str]:
        if self.file is not None:
            (steps,) = build_payloads(DataOptions(prompts=self.file)).streams
            return [_text(self.file, step[0].name, step[0].data) for step in steps]
        random = Random(self.seed)
        lengths = [max(1, round(random.gauss(self.mean, self.deviation))) for _ in range(self.count)]
        return [" ".join(random.choices(WORDS, k=length)) for length in lengths]

    def steps(self, model: str, inputs: Collection[str]) -> list[Mapping[str, Any]]:
        """A request each for a Triton model with these inputs, by the names that vLLM and TensorRT-LLM give them."""
        if TEXT not in inputs:
            raise UsageError(
                f"'{model}' has no input '{TEXT}', so no prompt can be sent to it",
                remedy=f"its inputs are {', '.join(sorted(inputs)) or 'none'}: profile it with model_type generic, or "
                "give whole requests with perf_analyzer_flags.input-data",
            )
        beside: dict[str, Any] = {"stream": self.is_streamed, "exclude_input_in_output": True}
        known = {name: [value] for name, value in beside.items() if name in inputs}
        known |= {name: [value] for name, value in self._length(model, inputs)}
        return [{TEXT: [text], **known} for text in self.texts()]

    def _length(self, model: str, inputs: Collection[str]) -> Iterator[tuple[str, Any]]:
        """How long an answer is to be, in the input that the backend has for it."""
        wanted = LENGTHS.values() if self.backend is None else (LENGTHS[self.backend],)
        if self.backend is not None and LENGTHS[self.backend] not in inputs:
            raise UsageError(
                f"'{model}' has no input '{LENGTHS[self.backend]}', which a model of the backend {self.backend} has",
                remedy=f"its inputs are {', '.join(sorted(inputs))}: leave out backend, or name the right one",
            )
        if "max_tokens" in wanted and "max_tokens" in inputs:
            yield "max_tokens", self.output_tokens or SHORT_ANSWER
        if (
            "sampling_parameters" in wanted
            and "sampling_parameters" in inputs
            and self.output_tokens is not None
        ):
            yield "sampling_parameters", json.dumps({"max_tokens": self.output_tokens})

    def write_steps(self, path: Path, model: str, inputs: Collection[str]) -> None:
        write_file(path, json.dumps({"data": self.steps(model, inputs)}))

    def write_lines(self, path: Path) -> None:
        write_file(path, "".join(json.dumps({"prompt": text}) + "\n" for text in self.texts()))


def _text(path: str, name: str, data: bytes) -> str:
    if name != "prompt":
        raise UsageError(
            f"the file of prompts {path} has '{name}', and a model on Triton takes a text",
            remedy='write {"prompt": "..."}, or one prompt per line',
        )
    return data.decode("utf-8", "replace")
