"""What a command has imported and looked for when its load begins: all of it costs CPU before the first request."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.servers import FakeTriton

PROGRAM = """
import os, sys
from inferometer.load import workers
from inferometer.{main} import main

listed = []
sys.addaudithook(lambda event, words: listed.append(str(words[0])) if event == "os.listdir" else None)

def begin(load, plan):
    unwanted = [name for name in {unwanted} if name in sys.modules]
    print(*unwanted, *(folder for folder in listed if folder == "/proc"), flush=True)
    load.__exit__()
    os._exit(0)

workers.Workers.apply = begin
main(sys.argv[1:])
"""
UNWANTED = (
    *(
        "asyncio",
        "decimal",
        "email",
        "http.client",
        "jinja2",
        "multiprocessing",
        "psutil",
        "pydantic",
        "pynvml",
    ),
    *("rich", "sqlite3", "ssl", "statistics", "urllib.request", "yaml"),
    *(
        f"inferometer.{name}"
        for name in (
            *("cli.compare", "cli.ui", "compare", "dataset.files", "dataset.json_file", "dataset.payloads"),
            *("dataset.prompts", "dataset.replay", "diagnose", "load.engine"),
            *("measure.journal", "measure.prompts", "observe.llm_metrics"),
            *(
                "options.comparing",
                "options.diagnosing",
                "options.machines",
                "options.stored",
                "options.tuning",
            ),
            *("report.document", "report.export", "report.page", "services.openai_api", "services.tls"),
            *("server.guarded", "stats.prompts", "store.index", "tune"),
        )
    ),
)
OF_HTTP = ("google.protobuf", "hpack", "logging", "inferometer.wire.http2")
COMMANDS = (
    ("cli.main", ("measure", "-c", "1")),
    ("cli.main", ("find", "--slo", "p99<50ms")),
    ("dialects.perf_analyzer.main", ()),
)


def imported(main: str, words: tuple[str, ...], unwanted: tuple[str, ...]) -> list[str]:
    program = PROGRAM.format(main=main, unwanted=unwanted)
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize(("main", "words"), COMMANDS, ids=["measure", "find", "perf_analyzer"])
def test_a_command_begins_without_what_it_does_not_need(
    main: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INFEROMETER_STORE", str(tmp_path))
    with FakeTriton() as fake:
        found = imported(main, (*words, "-m", "fake", "-u", fake.server.address), (*UNWANTED, *OF_HTTP))
    assert found == []


def test_so_does_one_over_grpc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFEROMETER_STORE", str(tmp_path))
    with FakeGrpcTriton() as fake:
        words = ("measure", "--grpc", "-m", "fake", "-u", fake.server.address)
        found = imported("cli.main", words, UNWANTED)
    assert found == []
