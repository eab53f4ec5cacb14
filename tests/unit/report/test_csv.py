"""The CSV files: the samples of the reference, and their rows."""

from dataclasses import replace
from types import ModuleType
from typing import Any

from inferometer.base.notes import Note, Remark
from inferometer.report.csv import composing_csvs, floored_levels, main_csv

HEAD = "Concurrency,Inferences/Second,Client Send,"
SERVER = (
    "Network+Server Send/Recv,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output,"
)
TAIL = "Client Recv,p50 latency,p90 latency,p95 latency,p99 latency"


def verbose(build: ModuleType) -> Any:
    server = build.model("addsub", build.counters(100, 180, 19.4, (16.4, 103.4, 29.4)))
    return build.measurement(
        100, 2992.22, 329, 10, (251, 534, 719, 1137), transport=323, send=37, server=server
    )


def ensemble(build: ModuleType, rate: float = 1370.93, calls: int = 3469) -> Any:
    server = build.ensemble(
        "ens",
        build.counters(3469, 493),
        build.model("addsub", build.counters(calls, 233, 26.2, (21.0, 149.1, 36.0))),
        build.model("addsub_b", build.counters(3469, 252, 27.2, (20.0, 147.1, 57.0))),
        build.model("never", build.counters(0, 0), version="", was_called=False),
    )
    return build.measurement(3469, rate, 723, 300, (600, 900, 1000, 1500), send=40, server=server)


def test_verbose_sample_is_reproduced(build: ModuleType) -> None:
    text = main_csv(build.result(build.level(verbose(build)), verbose_csv=True))
    assert text == (
        f"{HEAD}{SERVER}{TAIL},Avg latency,request/response,response wait\n"
        "1,2992.22,37,122,19,16,103,29,0,251,534,719,1137,329,37,286\n"
    )


def test_without_server_statistics_the_server_columns_are_missing(build: ModuleType) -> None:
    row = build.measurement(
        81, 44.9832, 43644, 5072, (43915, 47859, 47888, 47927), transport=43654, send=138, receive=283
    )
    text = main_csv(build.result(build.level(row, 2)))
    assert text == f"{HEAD}{TAIL}\n2,44.9832,138,283,43915,47859,47888,47927\n"


def test_level_without_statistics_among_others_leaves_its_cells_empty(build: ModuleType) -> None:
    bare = build.measurement(10, 9999.0, 30, 2, (1, 2, 3, 4))
    text = main_csv(build.result(build.level(verbose(build)), build.level(bare, 2)))
    assert text.splitlines()[2] == "2,9999,0,,,,,,0,1,2,3,4"


def test_composing_sample_is_reproduced(build: ModuleType) -> None:
    files = composing_csvs(build.result(build.level(ensemble(build))))
    assert [prefix for prefix, _ in files] == ["addsub_v1.", "addsub_b_v1."]
    assert files[0][1] == f"{HEAD}{SERVER}Client Recv\n1,1370.93,0,0,26,21,149,36,0\n"


def test_member_rate_follows_its_calls(build: ModuleType) -> None:
    files = composing_csvs(build.result(build.level(ensemble(build, rate=100.0, calls=2 * 3469))))
    assert files[0][1].splitlines()[1].startswith("1,200,")


def test_ensemble_row_shows_its_own_statistics(build: ModuleType) -> None:
    text = main_csv(build.result(build.level(ensemble(build))))
    assert text.splitlines()[1] == "1,1370.93,40,682,0,0,0,0,0,600,900,1000,1500"


def test_rows_grow_with_throughput_and_hold_reported_levels_only(build: ModuleType) -> None:
    levels = (
        build.level(build.measurement(10, 900.0, 30, 2, (1, 2, 3, 4)), 1),
        build.level(build.measurement(10, 50.5, 30, 2, (1, 2, 3, 4)), 2),
        build.level(build.measurement(10, 1.0, 30, 2, (1, 2, 3, 4)), 3, is_stable=False),
        build.level(build.measurement(10, 2.0, 30, 2, (1, 2, 3, 4)), 4, is_over_limit=True),
        build.level(None, 5),
    )
    rows = main_csv(build.result(*levels)).splitlines()[1:]
    assert [row.split(",")[:2] for row in rows] == [["2", "50.5"], ["1", "900"]]


def test_our_own_file_has_every_level_with_an_answer_and_its_verdict(build: ModuleType) -> None:
    found = build.measurement(10, 50.5, 30, 2, (1, 2, 3, 4))
    cut = build.level(replace(found, failed_count=1), 2, is_stable=False)
    result = build.result(
        build.level(found, 1),
        replace(cut, remarks=(Remark(Note.INTERRUPTED, "interrupted"),)),
        build.level(found, 3, is_over_limit=True),
        build.level(None, 4),
    )
    header, *rows = main_csv(replace(result, command="measure")).splitlines()
    assert header == f"{HEAD}{TAIL},Verdict"
    assert [(row.split(",")[0], row.split(",")[-1]) for row in rows] == [
        ("1", "ok"),
        ("2", "interrupted; errors"),
        ("3", "over limit"),
    ]


def test_nothing_reported_gives_no_text(build: ModuleType) -> None:
    result = build.result(build.level(None))
    assert main_csv(result) == ""
    assert composing_csvs(result) == ()


def test_percentile_has_its_column_and_replaces_the_average(build: ModuleType) -> None:
    row = build.measurement(10, 5.0, 30, 2, (1, 3, 4, 5), transport=30, extra={75: 2})
    text = main_csv(build.result(build.level(row), percentile=75, verbose_csv=True))
    assert text.splitlines()[0].endswith(
        "p50 latency,p75 latency,p90 latency,p95 latency,p99 latency,request/response,response wait"
    )


def test_cache_columns_appear_with_a_cached_model(build: ModuleType) -> None:
    server = build.model(
        "cached",
        build.counters(10, 21, 2, (1, 2, 3), computed=1, hits=(9, 6.5), misses=(1, 61)),
        has_cache=True,
    )
    row = build.measurement(10, 5.0, 300, 2, (1, 3, 4, 5), server=server)
    header, cells = main_csv(build.result(build.level(row))).splitlines()
    shown = dict(zip(header.split(","), cells.split(","), strict=True))
    assert (shown["Server Cache Hit"], shown["Server Cache Miss"]) == ("6", "61")


def test_server_time_above_client_time_is_floored_and_named(build: ModuleType) -> None:
    server = build.model("addsub", build.counters(10, 400, 20, (10, 350, 10)))
    row = build.measurement(10, 5.0, 300, 2, (1, 3, 4, 5), server=server)
    levels = (build.level(row), build.level(verbose(build), 2))
    result = build.result(*levels)
    assert main_csv(result).splitlines()[1].startswith("1,5,0,0,20,")
    assert floored_levels(result) == (levels[0],)


def test_request_rate_does_not_blame_the_network_for_lateness(build: ModuleType) -> None:
    server = build.model("addsub", build.counters(10, 40, 0, (10, 10, 10)))
    late = build.measurement(10, 5.0, 900, 2, (1, 3, 4, 5), transport=100, server=server)
    text = main_csv(build.result(build.level(late, 50.5, mode="request_rate"), mode="request_rate"))
    assert text.startswith("Request Rate,Inferences/Second,")
    assert text.splitlines()[1].startswith("50.5,5,0,69,0,10,10,10,")
