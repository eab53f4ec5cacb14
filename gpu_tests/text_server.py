"""Accuracy of LLM figures on `transformers serve` with continuous batching: intervals, sweep, search, tuning, twin.

Run it as `python -m gpu_tests.text_server FOLDER [--parts intervals,sweep] [--minutes 9] [--site FOLDER]`. The Python
of the GPU machine needs torch and transformers; `--site` is a folder with fastapi and uvicorn, which only the server
sees (`gpu_tests/pack.py` makes it). Every answer is saved in FOLDER, with one line per check in `lines.txt`. `--tiny`
uses a small model and short times on the CPU, to check the script itself.
"""

import argparse
import itertools
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer import api
from inferometer.base.errors import InferometerError
from inferometer.server.launcher import LaunchedServer, ServerCommand, new_log
from inferometer.stats.estimate import Estimate
from inferometer.stats.result import Result

SLO = "ttft p99<500ms, tpot p95<40ms"
PROMPT, ANSWER = 128, 64
CLOSED = 16
FITTED, HELD_OUT = "1,4,16", "2,8,32"
KNOBS = {
    "--cb-max-batch-tokens": ("256", "512", "1024", "2048"),
    "--cb-block-size": ("32", "128", "256"),
}

MODEL = """
import sys, torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
folder, layers, width, heads, dtype = sys.argv[1], *map(int, sys.argv[2:5]), getattr(torch, sys.argv[5])
words = {word: i for i, word in enumerate(["<unk>", "<s>", "</s>", *"the of and to in is you that it was".split()])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
chat = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                        chat_template=chat).save_pretrained(folder)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=len(words), hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
    num_attention_heads=heads, num_key_value_heads=max(1, heads // 2), max_position_embeddings=4096,
    bos_token_id=1, eos_token_id=2))
with torch.no_grad():
    model.lm_head.weight[:3] = 0
model.generation_config.suppress_tokens = [0, 1, 2]
model.to(dtype).save_pretrained(folder)
"""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Where to write, how long to measure, and how to start the server."""

    folder: Path
    python: Path
    site: Path | None
    is_tiny: bool
    end: float  # monotonic time

    @property
    def model(self) -> Path:
        return (self.folder / "model").resolve()

    @property
    def requests(self) -> tuple[str, ...]:
        """The options of every command that sends requests."""
        prompt, answer = ("16", "16") if self.is_tiny else ("128", "64")
        lengths = ("--prompt-tokens", prompt, "--output-tokens", answer)
        return ("--service-kind", "openai", "-m", str(self.model), *lengths)

    def seconds(self, full: float) -> float:
        return max(2.0, full / 10) if self.is_tiny else full

    def duration(self, full: float) -> str:
        return f"{self.seconds(full):g}s"

    @property
    def command(self) -> str:
        device = ("cpu", "float32") if self.is_tiny else ("cuda", "bfloat16")
        words = (str(self.python.parent / "transformers"), "serve", str(self.model), "--continuous-batching")
        return shlex.join((*words, "--device", device[0], "--dtype", device[1])) + " --port {port}"

    @property
    def environment(self) -> dict[str, str]:
        return {"HF_HUB_OFFLINE": "1", "PYTHONPATH": "" if self.site is None else str(self.site.resolve())}

    def note(self, line: str) -> None:
        print(line, flush=True)
        with (self.folder / "lines.txt").open("a") as file:
            print(line, file=file)

    def run(self, command: str, name: str, *words: str, limit_s: float) -> Any:
        """Run one of our commands and return its answer; None if it saved none."""
        saved = self.folder / f"{name}.json"
        begin = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-m", "inferometer.cli.main", command, *words, "--json", str(saved)],
            capture_output=True,
            text=True,
            timeout=limit_s + 120,
            check=False,
        )
        (self.folder / f"{name}.txt").write_text(ended.stdout + ended.stderr)
        first = " ".join((ended.stdout or ended.stderr).strip().partition("\n\n")[0].split())
        self.note(f"{name}: {time.monotonic() - begin:.0f} s, exit {ended.returncode}: {first[:300]}")
        return api.load(saved) if saved.exists() else None

    @contextmanager
    def served(self, *options: str) -> Iterator[str]:
        """The address of a server with these options."""
        words = tuple(shlex.split(self.command))
        server = LaunchedServer(ServerCommand((*words, *options), tuple(self.environment.items())))
        server.start({}, new_log(self.folder / "logs", "server"))
        try:
            yield server.address
        finally:
            server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * given.minutes
    experiment = Experiment(given.folder, given.python, given.site, given.tiny, end)
    _make_model(experiment)
    for part in given.parts.split(","):
        if time.monotonic() > end:
            experiment.note(f"{part}: no time left")
            continue
        try:
            PARTS[part](experiment)
        except (InferometerError, OSError, subprocess.TimeoutExpired) as error:
            experiment.note(f"{part}: failed: {error}")
    return 0


def _make_model(experiment: Experiment) -> None:
    if not (experiment.model / "config.json").exists():
        shape = ("2", "64", "4", "float32") if experiment.is_tiny else ("16", "2048", "16", "bfloat16")
        words = [str(experiment.python), "-c", MODEL, str(experiment.model), *shape]
        subprocess.run(words, check=True, timeout=300)
    Path("~/.cache/huggingface/hub").expanduser().mkdir(parents=True, exist_ok=True)  # /v1/models needs it


def _tokens(result: Result | None) -> Estimate:
    """Return the tokens per second of a result with one level."""
    if result is None or result.levels[-1].measurement is None:
        raise OSError("the measurement gave no figures")
    tokens = result.levels[-1].measurement.tokens
    assert tokens is not None
    return tokens.output_interval or Estimate(tokens.output_per_s)


def _intervals(experiment: Experiment) -> None:
    """Compare ten short measurements with long ones before and after them."""
    with experiment.served() as address:
        words = ("-u", address, *experiment.requests, "-c", str(CLOSED), "--precision", "0.1%")

        def measured(name: str, seconds: float) -> Estimate:
            limits = ("-d", experiment.duration(seconds))
            return _tokens(experiment.run("measure", name, *words, *limits, limit_s=seconds))

        long = [measured("long-before", 60)]
        short = [measured(f"short-{number}", 10) for number in range(10)]
        long.append(measured("long-after", 60))
    truth = sum(one.value for one in long) / 2
    inside = sum(one.low is not None and one.low <= truth <= (one.high or 0) for one in short)
    experiment.note(
        f"intervals: {inside} of {len(short)} contain {truth:.0f} tokens/s, the mean of 60 s before and after"
    )


def _sweep(experiment: Experiment) -> None:
    with experiment.served() as address:
        words = (
            "-u",
            address,
            *experiment.requests,
            "--sweep",
            "--html",
            str(experiment.folder / "sweep.html"),
        )
        experiment.run("measure", "sweep", *words, limit_s=180)


def _find(experiment: Experiment) -> None:
    """Search the highest rate that meets the SLO, then measure rates around it."""
    with experiment.served() as address:
        words = ("-u", address, *experiment.requests)
        limits = ("--slo", SLO, "-d", experiment.duration(120))
        found = experiment.run("find", "find", *words, *limits, limit_s=240)
        if found is None or found.finding is None:
            return
        value = found.finding.value or found.finding.high or 1.0
        rates = ",".join(f"{value * share:.3g}" for share in (0.6, 0.85, 1.0, 1.18, 1.5, 2.0))
        by_hand = ("-r", rates, "--slo", SLO, "-d", experiment.duration(15))
        experiment.run("measure", "find-by-hand", *words, *by_hand, limit_s=180)


def _twin(experiment: Experiment) -> None:
    """Fit a twin to three loads and check it at others."""
    with experiment.served() as address:
        words = ("-u", address, *experiment.requests)
        for name, loads in (("fitted", FITTED), ("held-out", HELD_OUT)):
            limits = ("-c", loads, "-d", experiment.duration(15))
            experiment.run("measure", name, *words, *limits, limit_s=120)
    twin = str(experiment.folder / "twin.json")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "inferometer.cli.main",
            "twin",
            "fit",
            str(experiment.folder / "fitted.json"),
            "-f",
            twin,
        ],
        check=False,
        timeout=300,
    )
    held_out = str(experiment.folder / "held-out.json")
    experiment.run("twin", "twin-check", "check", held_out, "-f", twin, limit_s=300)


def _tune(experiment: Experiment) -> None:
    varied = {name.removeprefix("--").replace("-", "_"): values for name, values in KNOBS.items()}
    options = " ".join(f"{name} {{{placeholder}}}" for name, placeholder in zip(KNOBS, varied, strict=True))
    environment = [
        word for item in experiment.environment.items() for word in ("--serve-env", "=".join(item))
    ]
    vary = [word for name, values in varied.items() for word in ("--vary", f"{name}={','.join(values)}")]
    seconds = experiment.seconds(300)
    words = ("--serve", f"{experiment.command} {options}", *environment, *vary, *experiment.requests)
    logs = (
        "--serve-logs",
        str(experiment.folder / "logs"),
        "--journal",
        str(experiment.folder / "tune.sqlite"),
    )
    load = ("--load", f"1:{4 * CLOSED}", "--budget", f"{seconds:g}s", "--objective", "tokens")
    experiment.run("tune", "tune", *words, *logs, *load, "--allow-inconclusive", limit_s=2 * seconds)


def _grid(experiment: Experiment) -> None:
    """Measure every configuration that `tune` may try."""
    best = 0.0
    for values in itertools.product(*KNOBS.values()):
        if time.monotonic() > experiment.end:
            experiment.note("grid: no time left")
            break
        options = [word for pair in zip(KNOBS, values, strict=True) for word in pair]
        name = "grid-" + "-".join(values)
        with experiment.served(*options) as address:
            words = (
                "-u",
                address,
                *experiment.requests,
                "-c",
                str(4 * CLOSED),
                "-d",
                experiment.duration(10),
            )
            best = max(best, _tokens(experiment.run("measure", name, *words, limit_s=60)).value)
    experiment.note(f"grid: at most {best:.0f} tokens/s")


PARTS: dict[str, Callable[[Experiment], None]] = {
    "intervals": _intervals,
    "sweep": _sweep,
    "find": _find,
    "twin": _twin,
    "tune": _tune,
    "grid": _grid,
}


if __name__ == "__main__":
    sys.exit(main())
