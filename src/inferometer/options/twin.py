"""Options of `twin`."""

from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.options import outputs
from inferometer.options.lengths import lengths
from inferometer.options.option import appended, option
from inferometer.options.reach import Reach
from inferometer.options.values import (
    Range,
    above_zero,
    choice,
    duration,
    label,
    levels,
    path,
    server_url,
)


@frozen
class TwinOptions:
    """Options of `twin fit`, `twin predict` and `twin check`."""

    file: Path = option(
        "-f --file",
        "File of the twin: `fit` writes it, `predict` and `check` read it",
        path("FILE", Reach.READS_FILES | Reach.WRITES_FILES),
        default=Path("twin.json"),
        group="Twin",
        is_main=True,
    )
    cores: float | None = option(
        "--cores",
        "For `fit`: cores of the server's machine (default: detected if it was this one)",
        above_zero("N", "number", "give the number of cores of the server's machine"),
        is_main=True,
    )
    models: tuple[str, ...] = option(
        "-m --model",
        "Model of the twin; several run at the same time and share the load by their weights, as in -m a:3 -m b:1 "
        "(default: each model alone)",
        label("NAME[:WEIGHT]"),
        combine=appended,
        group="Load",
        is_main=True,
    )
    concurrency: Range | None = option(
        "-c --concurrency",
        "Requests in flight: 4, 1,2,4, 1:16 or 1:64:x2 (default: 1 to twice the highest that was measured)",
        levels(),
        is_main=True,
    )
    rate: Range | None = option(
        "-r --rate", "Requests per second: 100, 50,100 or 50:200:50", levels(decimals=True), is_main=True
    )
    arrivals: str = option(
        "--arrivals",
        "Arrivals at a rate: constant or poisson",
        choice("HOW", "constant", "poisson"),
        default="constant",
        is_main=True,
    )
    prompt_tokens: int | str | None = option(
        "--prompt-tokens",
        "Lengths of prompts, for text servers",
        lengths(pairs=True),
    )
    output_tokens: int | str | None = option(
        "--output-tokens",
        "Lengths of answers (default: as measured)",
        lengths(pairs=False),
    )
    settings: tuple[str, ...] = option(
        "--set",
        "Predict with another setting: MODEL.instances=2, .batching=on, .max_batch=8, .delay_us=500; of text servers "
        ".slots=64, .kv_tokens=200000, .prefill_tokens=512. `check` reads the server's settings",
        label("MODEL.SETTING=VALUE"),
        combine=appended,
        is_main=True,
    )
    url: str | None = option(
        "-u --url",
        "For `check`: address of the server (default: the one that was measured)",
        server_url(),
        group="Check",
        is_main=True,
    )
    duration_s: float | None = option(
        "-d --duration",
        "For `check`: time to measure each load (default: as long as in the runs)",
        duration(zero=False),
        is_main=True,
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    html: str | None = outputs.page(is_main=True)
    markdown: str | None = outputs.markdown()
    csv: str | None = outputs.table(names="--csv")
    json: str | None = outputs.saved()
    quiet: bool = outputs.quiet()
    junit: None = None
    verbose: int = 0
