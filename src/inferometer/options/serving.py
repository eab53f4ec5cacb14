"""Options about a server that the command starts by its command line, shared by several commands."""

from pathlib import Path
from typing import Any

from inferometer.options.option import appended, option
from inferometer.options.reach import Reach
from inferometer.options.values import choice, duration, label, path, text

START_S = 120.0
LOGS = Path("inferometer-logs")


def serve(what: str) -> Any:
    return option("--serve", what, text("COMMAND", Reach.RUNS_CODE), group="Any server", is_main=True)


def preset(what: str) -> Any:
    return option(
        "--preset",
        what,
        choice("NAME", "vllm", "sglang", "trtllm", "llamacpp", "transformers", "torchserve", "mlserver"),
        reach=Reach.RUNS_CODE,
    )


def environment(what: str) -> Any:
    return option("--serve-env", what, text("NAME=VALUE", Reach.RUNS_CODE), combine=appended)


def ready() -> Any:
    return option(
        "--ready",
        "When the server is ready: /PATH answers with a 2xx status, log:TEXT is in its log, or tcp: its port accepts "
        "connections (default: as the preset says, or tcp)",
        label("CHECK"),
    )


def start_timeout() -> Any:
    return option(
        "--start-timeout",
        "Maximum time for a start of the server",
        duration(zero=False),
        default=START_S,
        shown="2m",
    )


def logs(default: str = "") -> Any:
    """Return the field of `--serve-logs`; `default` says where the logs are if it is None."""
    what = "Folder for the logs of the server, one file per start"
    if default:
        return option("--serve-logs", f"{what} (default: {default})", path("DIR"))
    return option("--serve-logs", what, path("DIR"), default=LOGS, shown=str(LOGS))
