"""The server's metrics in the classic text, the CSV, the console and the result file."""

from dataclasses import replace
from types import ModuleType

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.report.csv import main_csv
from inferometer.report.sentences import metrics_sentences
from inferometer.stats.machine_figures import GpuFigures, HostFigures, QueueFigures, ServerMetrics
from inferometer.stats.measurement import Measurement
from inferometer.stats.result import Result
from tests.support.reports import classic_report

AAA = GpuFigures("GPU-aaa", 0.1961538, 55.3, 1_000_000_026, 50_000_000_000)
BBB = GpuFigures("GPU-bbb", 0.25, 123.45678, 2_097_152, 50_000_000_000)
NONE = ServerMetrics(1, (), None, None, None, (), None)
HEADINGS = "".join(
    f"{line}\n"
    for line in (
        "  Server Prometheus Metrics: ",
        "    Avg GPU Utilization:",
        "    Avg GPU Power Usage:",
        "    Max GPU Memory Usage:",
        "    Total GPU Memory:",
    )
)


def with_gpus(*gpus: GpuFigures) -> ServerMetrics:
    return replace(NONE, gpus=gpus)


@pytest.fixture
def measured(build: ModuleType):
    def make(metrics: ServerMetrics | None, **more) -> Measurement:
        return replace(
            build.measurement(1000, 3208.51, 307, 50, (300, 310, 320, 330), **more), metrics=metrics
        )

    return make


def test_the_block_of_the_contract(build: ModuleType, measured, golden) -> None:
    text = classic_report(build.result(build.level(measured(with_gpus(AAA, BBB), cpu=0.9))))
    golden("classic_gpus.txt", text)


def test_without_gpus_only_headings_remain(build: ModuleType, measured) -> None:
    text = classic_report(build.result(build.level(measured(NONE))))
    assert HEADINGS + "Inferences/Second" in text


def test_without_metrics_there_is_no_block(build: ModuleType, measured) -> None:
    assert "Prometheus" not in classic_report(build.result(build.level(measured(None))))


@pytest.mark.parametrize(("count", "is_shown"), [(16, True), (17, False)])
def test_many_gpus_share_one_line(count: int, is_shown: bool, build: ModuleType, measured) -> None:
    gpus = [replace(AAA, uuid=f"GPU-{number:02}") for number in range(count)]
    text = classic_report(build.result(build.level(measured(with_gpus(*gpus)))))
    line = (
        "Too many GPUs on system to print out individual Prometheus metrics, use the CSV output feature to see "
        "metrics.\n"
    )
    assert (line in text) is not is_shown
    assert ("Server Prometheus Metrics" in text) is is_shown
    assert ("GPU-00" in text) is is_shown


def test_the_columns_of_the_contract(build: ModuleType, measured) -> None:
    levels = [build.level(measured(with_gpus(AAA, BBB)))]
    header, row = main_csv(build.result(*levels, verbose_csv=True, collect_metrics=True)).splitlines()
    assert header.endswith(
        "response wait,Avg GPU Utilization,Avg GPU Power Usage,Max GPU Memory Usage,Total GPU Memory"
    )
    assert row.endswith(
        ",GPU-aaa:0.196154;GPU-bbb:0.25;,GPU-aaa:55.3;GPU-bbb:123.457;,GPU-aaa:1000000026;GPU-bbb:2097152;,"
        "GPU-aaa:50000000000;GPU-bbb:50000000000;"
    )


def test_cells_without_gpus_are_empty(build: ModuleType, measured) -> None:
    text = main_csv(build.result(build.level(measured(NONE)), verbose_csv=True, collect_metrics=True))
    assert text.endswith(",,,,\n")


@pytest.mark.parametrize("effective", [{"verbose_csv": True}, {"collect_metrics": True}, {}])
def test_the_columns_need_both_options(effective, build: ModuleType, measured) -> None:
    assert "GPU" not in main_csv(build.result(build.level(measured(with_gpus(AAA))), **effective))


def test_the_result_file_keeps_all_metrics(build: ModuleType, measured) -> None:
    queue = QueueFigures("simple", "1", 3.5, 5, 20, 100.5)
    host = HostFigures(0.75, 9, (AAA, GpuFigures("GPU-ccc", None, None, None, None)))
    metrics = ServerMetrics(3, (AAA, BBB), 0.5, 4, 9, (queue,), host)
    result = build.result(build.level(measured(metrics)))
    assert from_json(to_json(result), "here", Result) == result


def test_an_older_result_file_has_no_metrics(build: ModuleType, measured) -> None:
    result = build.result(build.level(measured(None)))
    text = to_json(result).replace('"metrics": null,', "")
    assert '"metrics"' not in text
    assert from_json(text, "here", Result) == result


def test_all_known_metrics_are_shown() -> None:
    queue = QueueFigures("simple", "1", 3.5, 5, 20, 100)
    host = HostFigures(0.75, 2 * 1024**3, (AAA,))
    metrics = ServerMetrics(3, (), 0.5, 4 * 1024**3, 16 * 1024**3, (queue,), host)
    assert list(metrics_sentences(metrics)) == [
        "Server metrics (3 polls): CPU 50 %, memory 4.00 of 16.0 GiB",
        "simple version 1: 3.50 requests pending, 5 at most, 100 µs in the queue",
        "GPU-aaa: busy 20 %, 55.3 W, memory 0.93 of 46.6 GiB",
        "This host: CPU 75 %, memory 2.00 GiB",
    ]


def test_server_gpu_metrics_take_precedence_over_nvml() -> None:
    host = HostFigures(None, 1024**3, (AAA,))
    lines = list(metrics_sentences(replace(with_gpus(BBB), host=host)))
    assert [line for line in lines if "GPU-" in line] == [
        "GPU-bbb: busy 25 %, 123 W, memory 0.0020 of 46.6 GiB"
    ]


def test_an_endpoint_without_figures_is_reported() -> None:
    assert list(metrics_sentences(NONE)) == ["Server metrics (1 poll): no CPU or memory figures"]
