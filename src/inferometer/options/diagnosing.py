"""Options of `diagnose` alone, and the options of a measurement that it does not support."""

from collections.abc import Mapping
from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.options import outputs, serving
from inferometer.options.groups import (
    ADDRESSES,
    CANCELLING,
    CHECKS,
    CLUSTER,
    ENDINGS,
    LEVEL_ACTIONS,
    OTHER_LOADS,
    THINKING,
)
from inferometer.options.option import option
from inferometer.options.reach import Reach
from inferometer.options.values import above_zero, duration, path

DIAGNOSED_S = 3.0  # per load of `diagnose`
NO_ADDRESS = "127.0.0.1:1"  # in place of the address of a server that is started later
DIAGNOSE_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(OTHER_LOADS, "it loads by concurrency: give the levels with {-c}, or leave it out"),
    **dict.fromkeys(ENDINGS, "{--duration} is the time per load"),
    **dict.fromkeys(("warmup_s", "warmup_request_count"), "it excludes a cold start automatically"),
    **dict.fromkeys(
        (
            "profile_export",
            "verbose_csv",
            "slo",
            "junit",
            *CANCELLING,
            *CLUSTER,
            *ADDRESSES,
            *LEVEL_ACTIONS,
            *THINKING,
            *CHECKS,
        ),
        "use it with `inferometer measure`",
    ),
    "ramp_s": "leave it out: if answers are long, users start one after the other anyway",
}


@frozen
class DiagnoseOptions:
    """Options of `diagnose` alone."""

    apply: bool = option(
        "--apply",
        "Load the suggested configurations one after the other, measure them, and keep the improvements; requires a "
        "server with --model-control-mode explicit. The original configuration is restored at the end",
        reach=Reach.CHANGES_SERVER,
        group="Diagnosis",
        is_main=True,
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    budget_s: float = option(
        "--budget",
        "Time for --apply, such as 90s or 3m",
        duration(zero=False),
        default=180.0,
        shown="3m",
        is_main=True,
    )
    keep: bool = option(
        "--keep",
        "Keep the configuration that --apply found",
        is_main=True,
        reach=Reach.CHANGES_SERVER,
    )
    write_config: Path | None = option(
        "--write-config",
        "Write the config.pbtxt files of --apply here",
        path("DIR"),
        is_main=True,
    )
    cores: float | None = option(
        "--cores",
        "Cores of the server's machine (default: detected if it is this one)",
        above_zero("N", "number", "give the number of cores of the server's machine"),
        is_main=True,
    )
    serve: str | None = serving.serve(
        "Command that starts the server, with {port}; --apply restarts it with other options"
    )
    preset: str | None = serving.preset(
        "Known server: names its options and its ready check (default: recognised from the command)"
    )
    serve_env: tuple[str, ...] = serving.environment(
        "Environment variable of the server; may be given several times"
    )
    ready: str | None = serving.ready()
    start_timeout_s: float = serving.start_timeout()
    serve_logs: Path = serving.logs()

    @property
    def is_launched(self) -> bool:
        """Whether a command line starts the server."""
        return self.serve is not None or self.preset is not None
