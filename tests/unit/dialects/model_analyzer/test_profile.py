"""The whole `profile` on a simulated server: variants, loads, tables, folders, console lines, exit codes."""

import re

import pytest

from inferometer.tune import model_config
from tests.unit.dialects.model_analyzer.analyzer import BOUNDED
from tests.unit.tune.scripted import server

HEADER = (
    "Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,"
    "Throughput (infer/sec),p99 Latency (ms)"
)


def loads(rows, variant, column="Concurrency"):
    return sorted(int(float(row[column])) for row in rows if row["Model Config Path"] == variant)


def measured_parts(tool):
    """Return the variants and load values of all measured rows, in the order of measurement."""
    return [
        [(variant.name, round(load.value)) for variant, load in row.parts]
        for row in tool.meters[-1].proposals
    ]


def shape(tool, variant):
    config = tool.config(variant)
    return model_config.total_instances(config), model_config.max_batch_size(config)


def test_brute_walks_the_bounded_space_in_order(tool, capsys):
    assert tool.profile(*BOUNDED) == 0
    names = ["W_config_default", *(f"W_config_{number}" for number in range(6))]
    assert list(dict.fromkeys(name for name, _ in tool.runs)) == names
    assert [shape(tool, f"W_config_{number}") for number in range(6)] == [
        (1, 1),
        (1, 2),
        (1, 4),
        (2, 1),
        (2, 2),
        (2, 4),
    ]
    assert len(tool.runs) == 28
    text = (tool.folder / "results/metrics-model-inference.csv").read_text()
    assert text.startswith(HEADER + "\n")
    assert text.endswith("\n\n")
    assert len(tool.rows()) == 28
    assert all(loads(tool.rows(), name) == [1, 2, 4, 8] for name in names)
    out = capsys.readouterr().out
    assert "[Model Analyzer] Creating model config: W_config_0" in out
    assert "[Model Analyzer]   Setting max_batch_size to 4" in out
    assert "[Model Analyzer]   Enabling dynamic_batching" in out
    assert "[Model Analyzer] Profiling W_config_5: concurrency=8" in out
    assert "Profile complete. Profiled 7 configurations for models: ['W']" in out
    assert "In 28 measurements across 7 configurations, W_config_5 is " in out
    assert all(line.startswith("[Model Analyzer] ") for line in out.splitlines())


def test_variants_are_folders_with_links_to_the_first(tool):
    assert tool.profile(*BOUNDED) == 0
    output = tool.folder / "output_model_repository"
    assert tool.variants() == sorted(["W_config_default", *(f"W_config_{number}" for number in range(6))])
    assert not (output / "W_config_default" / "1").is_symlink()
    assert (output / "W_config_3" / "1").is_symlink()
    assert (output / "W_config_3" / "1" / "model.py").is_file()
    assert tool.config("W_config_3")["name"] == "W"


@pytest.fixture
def library(tmp_path):
    """Return a folder that looks like a Triton installation."""
    place = tmp_path / "triton"
    (place / "lib").mkdir(parents=True)
    (place / "lib" / "libtritonserver.so").touch()
    return place


def test_without_a_server_every_variant_is_a_separate_model(tool, library):
    words = ("--triton-launch-mode", "c_api", "--triton-install-path", library)
    assert tool.profile(*BOUNDED, *words, models="E") == 0
    names = {name: tool.config(name)["name"] for name in tool.variants()}
    assert all(name == found for name, found in names.items())
    assert {"E_config_default", "E_config_0", "A_config_0", "A", "S"} < set(names)


def test_measurements_with_and_without_a_server_are_not_interchangeable(tool, library):
    fixed = ("-c", "1", "--run-config-search-disable", "--override-output-model-repository")
    assert tool.profile(*fixed) == 0
    assert tool.profile(*fixed, "--triton-launch-mode", "c_api", "--triton-install-path", library) == 0
    assert len(tool.runs) == 1
    assert len(tool.rows()) == 1


def test_a_repeated_run_measures_nothing_and_prints_the_same(tool, capsys):
    tool.profile(*BOUNDED)
    before, numbers = tool.rows(), sorted(path.name for path in tool.folder.glob("checkpoints/*.ckpt"))
    capsys.readouterr()
    assert tool.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert tool.runs == []
    assert tool.rows() == before
    assert numbers == ["0.ckpt"] == sorted(path.name for path in tool.folder.glob("checkpoints/*.ckpt"))
    out = capsys.readouterr().out
    assert "Existing measurement found for run config. Skipping profile" in out
    assert "no checkpoint saved" in out
    assert "In 28 measurements across 7 configurations" in out


@pytest.mark.parametrize("place", [".", "..", "repo"])
def test_an_output_repository_with_needed_files_is_never_emptied(place, tool, capsys, monkeypatch):
    monkeypatch.chdir(tool.folder)
    before = sorted(tool.folder.rglob("*"))
    given = ("--override-output-model-repository", "--output-model-repository-path", place)
    assert tool.profile(*BOUNDED, *given) == 1
    assert f"'{place}' would be emptied, but it contains" in capsys.readouterr().err
    assert sorted(tool.folder.rglob("*")) == before
    assert tool.started == 0


def test_an_existing_output_repository_is_replaced_only_on_request(tool, capsys):
    old = tool.folder / "output_model_repository" / "old"
    old.mkdir(parents=True)
    assert tool.profile(*BOUNDED) == 1
    error = capsys.readouterr().err
    assert "output_model_repository" in error
    assert "--override-output-model-repository" in error
    assert old.exists()
    assert tool.started == 0
    assert tool.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert not old.exists()


def test_a_flat_server_stops_each_sweep_after_four_loads(tool, capsys):
    tool.formula = lambda variant, load: (100.0, load.value)
    assert (
        tool.profile(
            "--run-config-search-max-instance-count", "1", "--run-config-search-max-model-batch-size", "1"
        )
        == 0
    )
    assert loads(tool.rows(), "W_config_0") == loads(tool.rows(), "W_config_default") == [1, 2, 4, 8]
    assert "No longer increasing concurrency as throughput has plateaued" in capsys.readouterr().out


def test_batch_sizes_stop_where_throughput_falls(tool, capsys):
    def formula(variant, load):
        return {1: 100.0, 2: 200.0, 4: 150.0}.get(
            model_config.max_batch_size(variant.config), 1.0
        ), load.value

    tool.formula = formula
    words = ("--run-config-search-max-instance-count", "2", "--run-config-search-max-concurrency", "1")
    assert tool.profile(*words) == 0
    found = [shape(tool, name) for name in tool.variants() if name != "W_config_default"]
    assert found == [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)]
    assert "No longer increasing max_batch_size because throughput has plateaued" in capsys.readouterr().out


def test_a_manual_sweep_is_the_whole_product(tool):
    yaml = {
        "concurrency": "2,4",
        "profile_models": {
            "W": {
                "model_config_parameters": {
                    "max_batch_size": [6, 8],
                    "dynamic_batching": {"max_queue_delay_microseconds": [200, 300]},
                    "instance_group": [{"kind": "KIND_CPU", "count": [1, 2]}],
                }
            }
        },
    }
    assert tool.profile(models=None, yaml=yaml) == 0
    assert len(tool.variants()) == 9
    assert len(tool.runs) == 18
    rows = [
        (model_config.queue_delay_us(config), *shape(tool, f"W_config_{number}"))
        for number in range(8)
        for config in [tool.config(f"W_config_{number}")]
    ]
    assert rows == [(d, k, b) for d in (200, 300) for k in (1, 2) for b in (6, 8)]


def test_without_a_search_only_listed_loads_are_measured(tool):
    yaml = {"concurrency": {"start": 2, "stop": 6, "step": 2}, "run_config_search_disable": True}
    assert tool.profile(yaml=yaml) == 0
    assert tool.variants() == ["W_config_default"]
    assert loads(tool.rows(), "W_config_default") == [2, 4, 6]


def test_a_batch_that_does_not_fit_is_skipped_with_a_message(tool, capsys):
    yaml = {"batch_sizes": [1, 2, 16], "concurrency": [1], "run_config_search_disable": True}
    assert tool.profile(yaml=yaml) == 0
    assert [load.batch for _, load in tool.runs] == [1, 2]
    out = capsys.readouterr().out
    assert "Skipping illegal run configuration" in out
    assert "Profiling W_config_default: client batch size=2, concurrency=1" in out


def test_loads_close_in_on_a_latency_budget(tool):
    tool.formula = lambda variant, load: (100 * load.value, 2.0 * load.value)
    words = ("--run-config-search-max-instance-count", "1", "--run-config-search-max-model-batch-size", "1")
    assert tool.profile(*words, "--latency-budget", "22.5", "--run-config-search-max-concurrency", "32") == 0
    rows = [row for row in tool.rows() if row["Model Config Path"] == "W_config_0"]
    between = [int(row["Concurrency"]) for row in rows if 8 < int(row["Concurrency"]) < 16]
    assert between
    assert len(between) <= 5
    kept = [row["Satisfies Constraints"] for row in rows]
    assert kept == sorted(kept, reverse=True)
    best = next(row for row in rows if row["Satisfies Constraints"] == "Yes")
    assert float(best["p99 Latency (ms)"]) <= 22.5
    assert best["Concurrency"] == "11"
    text = (tool.folder / "reports/summaries/W/result_summary.md").read_text()
    assert "Max p99 Latency: 22.5 ms" in text


def test_a_latency_budget_nothing_meets_is_not_an_error(tool, capsys):
    assert tool.profile("--run-config-search-max-concurrency", "2", "--latency-budget", "0.001") == 0
    assert {row["Satisfies Constraints"] for row in tool.rows()} == {"No"}
    out = capsys.readouterr().out
    assert "WARNING: Requested top 3 configs, but none satisfied constraints" in out
    assert "no configuration satisfies the constraints" in out
    assert (tool.folder / "reports/summaries/W/result_summary.html").exists()


def test_fewer_variants_than_requested_cause_a_warning(tool, capsys):
    yaml = {"run_config_search_disable": True}
    assert tool.profile(yaml=yaml) == 0
    assert "WARNING: Requested top 3 configs, but found only 1" in capsys.readouterr().out


def test_request_rates_have_their_own_column(tool, capsys):
    words = (
        "--run-config-search-min-request-rate",
        "64",
        "--run-config-search-max-request-rate",
        "512",
        "--run-config-search-max-instance-count",
        "1",
        "--run-config-search-max-model-batch-size",
        "2",
    )
    tool.formula = lambda variant, load: (load.value, 3.0)
    assert tool.profile(*words) == 0
    assert len(tool.runs) == 12
    assert loads(tool.rows(), "W_config_1", "Request Rate") == [64, 128, 256, 512]
    assert "Concurrency" not in tool.rows()[0]
    assert "Profiling W_config_1: request-rate-range=512" in capsys.readouterr().out


def test_a_model_that_does_not_batch_only_gets_instances(tool):
    assert tool.profile(*BOUNDED, models="N") == 0
    assert tool.variants() == ["N_config_0", "N_config_1", "N_config_default"]
    for name in ("N_config_0", "N_config_1"):
        assert not {"max_batch_size", "dynamic_batching"} & set(tool.config(name))
    assert {row["Max Batch Size"] for row in tool.rows()} == {"0"}


def test_an_ensemble_is_named_with_its_members(tool):
    assert tool.profile(*BOUNDED, models="E") == 0
    row = next(row for row in tool.rows() if "default" not in row["Model Config Path"])
    assert re.fullmatch(r"E_config_\d+: A_config_\w+, S_config_\w+", row["Model Config Path"])
    assert re.fullmatch(r"\d:CPU,\d:CPU", row["Instance Group"])
    sizes = [int(size) for size in row["Max Batch Size"].split(",")]
    variant = row["Model Config Path"].partition(":")[0]
    assert model_config.max_batch_size(tool.config(variant)) == min(sizes)
    text = (tool.folder / "results/metrics-model-inference.csv").read_text()
    assert f'"{row["Model Config Path"]}"' in text


def test_settings_that_an_ensemble_takes_from_its_members_cause_a_warning(tool, capsys):
    swept = {"model_config_parameters": {"max_batch_size": [1, 2], "response_cache": {"enable": True}}}
    yaml = {"run_config_search_disable": True, "profile_models": {"E": swept}}
    assert tool.profile(models="", yaml=yaml) == 0
    out = capsys.readouterr().out
    assert "profile_models.E.model_config_parameters.max_batch_size has no effect" in out
    assert "response_cache has no effect" not in out


def test_errors_name_the_flags_of_the_load_generator(tool, capsys):
    config = tool.folder / "repo/W/config.pbtxt"
    config.write_text(config.read_text().replace("dims: [64]", "dims: [-1]"))
    assert tool.profile(*BOUNDED) == 1
    error = capsys.readouterr().err
    assert "generate data with --shape IN:1, or send your own with --input-data FILE" in error


def test_columns_have_the_requested_order(tool, capsys):
    words = (
        "--inference-output-fields",
        "perf_throughput,model_name,no_such,backend_parameter/x,gpu_used_memory",
    )
    assert tool.profile(*BOUNDED, *words) == 0
    assert list(tool.rows()[0]) == ["Throughput (infer/sec)", "Model"]
    out = capsys.readouterr().out
    for name in ("no_such", "backend_parameter/x", "gpu_used_memory"):
        assert f'WARNING: Inference output field "{name}", has no data' in out


def test_several_models_together_share_a_row(tool):
    words = ("--run-config-profile-models-concurrently-enable", *BOUNDED)
    assert tool.profile(*words, models="A,S") == 0
    row = tool.rows()[0]
    assert row["Model"] == "A,S"
    assert re.fullmatch(r"A_config_\w+,S_config_\w+", row["Model Config Path"])
    assert re.fullmatch(r"[\d.]+, \[[\d.]+,[\d.]+\]", row["Throughput (infer/sec)"])
    assert (tool.folder / "reports/summaries/A,S/result_summary.html").exists()
    assert not (tool.folder / "reports/detailed").exists()


@pytest.mark.parametrize(
    ("models", "yaml", "runs"),
    [
        ("A,S", {}, [((1, "A_config_default"), (1, "S_config_default"))]),
        (
            "A,S",
            {"concurrency": [2, 3]},
            [((a, "A_config_default"), (s, "S_config_default")) for a in (2, 3) for s in (2, 3)],
        ),
        ("E", {}, [((1, "E_config_default"),)]),
        ("E", {"concurrency": [2, 5]}, [((2, "E_config_default"),), ((5, "E_config_default"),)]),
    ],
    ids=("together", "together, listed loads", "ensemble", "ensemble, listed loads"),
)
def test_a_disabled_search_measures_only_listed_values(tool, models, yaml, runs):
    words = ("--run-config-profile-models-concurrently-enable",) if "," in models else ()
    assert tool.profile(*words, models=models, yaml={**yaml, "run_config_search_disable": True}) == 0
    assert [tuple((load, name) for name, load in trial) for trial in measured_parts(tool)] == runs


@pytest.mark.parametrize("mode", ["optuna", "smart"])
def test_a_disabled_search_is_disabled_in_every_mode(tool, mode):
    yaml = {"run_config_search_disable": True, "run_config_search_mode": mode, "concurrency": [3]}
    assert tool.profile(yaml=yaml) == 0
    assert [load.value for _, load in tool.runs] == [3]


def test_listed_variants_of_models_loaded_together_are_all_combined(tool):
    sizes = {"model_config_parameters": {"max_batch_size": [1, 2]}}
    yaml = {
        "profile_models": {"A": sizes, "S": sizes},
        "run_config_search_disable": True,
        "run_config_profile_models_concurrently_enable": True,
    }
    assert tool.profile(models="", yaml=yaml) == 0
    names = [tuple(name for name, _ in trial) for trial in measured_parts(tool)]
    assert names[0] == ("A_config_default", "S_config_default")
    assert names[1:] == [(f"A_config_{a}", f"S_config_{s}") for a in (0, 1) for s in (0, 1)]


def test_models_profiled_in_turn_have_a_report_each_and_a_common_one(tool):
    words = ("--num-top-model-configs", "2", "--min-throughput", "1", *BOUNDED)
    assert tool.profile(*words, models="A,S") == 0
    names = sorted(path.name for path in (tool.folder / "reports/summaries").iterdir())
    assert names == ["A", "Best Configs Across All Models", "S"]
    models = [row["Model"] for row in tool.rows()]
    assert models == sorted(models)


def test_a_run_writes_all_files(tool):
    assert tool.profile(*BOUNDED, "--num-configs-per-model", "2") == 0
    best = ("W_config_5", "W_config_4")
    for name in ("throughput_v_latency", "cpu_mem_v_latency"):
        assert (tool.folder / f"plots/simple/W/{name}.svg").exists()  # PNG if there is a browser
    summaries = tool.folder / "reports/summaries/W"
    assert {path.name for path in summaries.iterdir()} == {
        "result_summary.html",
        "result_summary.md",
        "study.json",
        "config.pbtxt",
    }
    assert model_config.max_batch_size(model_config.read_file(summaries / "config.pbtxt")) == 4
    for name in best:
        assert (tool.folder / f"reports/detailed/{name}/detailed_report.html").exists()
        assert (tool.folder / f"plots/detailed/{name}/latency_breakdown.svg").exists()
        assert (tool.folder / f"plots/simple/{name}/cpu_mem_v_latency.svg").exists()
    assert not (tool.folder / "results/metrics-model-gpu.csv").exists()
    text = (summaries / "result_summary.md").read_text()
    assert "28 measurements across 7 configurations" in text
    assert "Constraint targets: None" in text
    table = [line for line in text.splitlines() if line.startswith("| W")]
    assert [row.split("|")[1].strip().replace("\\", "") for row in table][:3] == [*best, "W_config_default"]


def test_reports_can_be_skipped(tool, capsys):
    assert tool.profile(*BOUNDED, "--skip-detailed-reports", "-e", "exported") == 0
    assert not (tool.folder / "exported/reports/detailed").exists()
    out = capsys.readouterr().out
    assert (
        "model-analyzer report --export-path exported --report-model-configs W_config_5,W_config_4,W_config_default"
        in out
    )
    assert (
        tool.profile(*BOUNDED, "--skip-summary-reports", "--override-output-model-repository", "-e", "none")
        == 0
    )
    assert list((tool.folder / "none").iterdir()) == []


def test_quiet_prints_nothing_and_verbose_prints_the_tables(tool, capsys):
    assert tool.profile(*BOUNDED, "-q") == 0
    assert capsys.readouterr().out == ""
    assert tool.profile(*BOUNDED, "-v", "--override-output-model-repository") == 0
    out = capsys.readouterr().out
    assert re.search(r"^\d\d:\d\d:\d\d \[Model Analyzer\] Profile complete", out, re.MULTILINE)
    for title in ("Models (Inference):", "Models (GPU Metrics):", "Server Only:"):
        assert title in out.splitlines()


def test_verbose_shows_the_settings_and_every_measurement(tool, capsys):
    yaml = {
        "perf_analyzer_flags": {"http-header": ["x-key: secret"], "percentile": 95},
        "triton_server_environment": {"TOKEN": "secret"},
        "profile_models": {
            "W": {"perf_analyzer_flags": {"http-header": ["x-key: secret"], "percentile": 90}}
        },
    }
    assert tool.profile(*BOUNDED, "-v", "-c", "1,2", models=None, yaml=yaml) == 0
    lines = capsys.readouterr().out.splitlines()
    debug = [line.split("DEBUG: ", 1)[1] for line in lines if "DEBUG: " in line]
    assert "run_config_search_mode: brute" in debug
    assert "run_config_search_max_instance_count: 2" in debug
    assert "concurrency: [1, 2]" in debug
    assert "perf_analyzer_flags: {'percentile': 95, 'http-header': 'given, not shown'}" in debug
    assert any(line.startswith("profile_models: [{'W': ") and "'percentile': 90" in line for line in debug)
    assert not any("secret" in line for line in lines)
    measured = [line for line in debug if line.startswith("Measured W_config_")]
    assert len(measured) == len(tool.runs) > 0
    assert re.fullmatch(
        r"Measured W_config_default, concurrency=1: \S+ infer/s, p99 \S+ ms \(in \S+ s\)", measured[0]
    )


def test_another_goal_re_ranks_the_same_measurements(tool):
    assert tool.profile(*BOUNDED) == 0
    yaml = {"objectives": ["perf_latency_p99"]}
    assert tool.profile(*BOUNDED, "--override-output-model-repository", yaml=yaml) == 0
    assert tool.runs == []
    first = tool.rows()[0]
    assert float(first["p99 Latency (ms)"]) == min(float(row["p99 Latency (ms)"]) for row in tool.rows())


def test_an_edited_model_is_measured_again(tool):
    assert tool.profile(*BOUNDED) == 0
    path = tool.folder / "repo/W/config.pbtxt"
    path.write_text(path.read_text().replace("max_batch_size: 8", "max_batch_size: 16"))
    assert tool.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert {name for name, _ in tool.runs} == {"W_config_default"}
    assert {
        row["Max Batch Size"] for row in tool.rows() if row["Model Config Path"] == "W_config_default"
    } == {"16"}


def test_another_model_keeps_the_measurements_of_the_first(tool):
    fixed = ("-c", "1,2", "--run-config-search-disable", "--override-output-model-repository")
    assert tool.profile(*fixed) == 0
    assert tool.profile(*fixed, models="W,A") == 0
    assert {name for name, _ in tool.runs} == {"A_config_default"}
    assert len(tool.rows()) == 4


def test_measurements_with_other_data_are_not_in_the_tables(tool):
    fixed = ("-c", "1,2", "--run-config-search-disable", "--override-output-model-repository")
    assert tool.profile(*fixed) == 0
    tool.formula = lambda variant, load: (7.0, 1.0)
    assert tool.profile(*fixed, yaml={"perf_analyzer_flags": {"shape": ["IN:64"]}}) == 0
    assert [row["Throughput (infer/sec)"] for row in tool.rows()] == ["7.0", "7.0"]


def test_a_failed_load_skips_only_the_rest_of_its_variant(tool, capsys):
    def formula(variant, load):
        return None if load.value == 4 else server(variant, load)

    tool.formula = formula
    assert tool.profile(*BOUNDED) == 0
    assert set(loads(tool.rows(), "W_config_1")) == {1, 2}
    log = (tool.folder / "perf_analyzer_error.log").read_text()
    assert "Command: " in log
    assert "Error: exit code 99" in log
    assert "perf_analyzer_error.log" in capsys.readouterr().out


def test_a_start_that_fails_twice_ends_the_run(tool, capsys):
    tool.formula = lambda variant, load: None
    assert tool.profile(*BOUNDED) == 1
    captured = capsys.readouterr()
    assert "first 2 attempts" in captured.err
    assert "Traceback" not in captured.err


def test_an_interrupt_finishes_the_measurement_and_a_rerun_continues(tool, capsys):
    tool.interrupt_at = 3
    assert tool.profile(*BOUNDED) == 1
    assert len(tool.runs) == 3
    out = capsys.readouterr().out
    assert "Received SIGINT 1/3. Will attempt to exit after current measurement." in out
    assert not (tool.folder / "results").exists()
    tool.interrupt_at = 0
    assert tool.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert len(tool.runs) == 25
    assert len(tool.rows()) == 28


def test_three_interrupts_exit_at_once(tool, capsys):
    tool.interrupt_at, tool.interrupts = 3, 3
    assert tool.profile(*BOUNDED) == 1
    assert "Received SIGINT 3/3" in capsys.readouterr().out
    tool.interrupt_at = 0
    assert tool.profile(*BOUNDED, "--override-output-model-repository") == 0
    assert len(tool.runs) == 26


@pytest.mark.parametrize("search", ["smart", "quick", "optuna"])
def test_other_searches_write_the_same_files(tool, search):
    words = ("--run-config-search-mode", search, "--seed", "1", *BOUNDED)
    assert tool.profile(*words) == 0
    assert (tool.folder / "reports/summaries/W/result_summary.html").exists()
    assert tool.rows()


def test_offline_reports_show_batch_sizes(tool):
    words = ("-b", "1,2,4", "-c", "2", "--run-config-search-disable")
    assert tool.profile(*words, before=["-m", "offline"]) == 0
    assert (tool.folder / "plots/simple/W/through_v_batch_size.svg").exists()
    assert not (tool.folder / "plots/detailed").exists()
    text = (tool.folder / "reports/detailed/W_config_default/detailed_report.md").read_text()
    assert "Client Batch Size" in text
    assert "Offline Result Summary" in (tool.folder / "reports/summaries/W/result_summary.md").read_text()


def test_optuna_respects_its_limit_and_prints_the_size_of_the_space(tool, capsys):
    words = ("--run-config-search-mode", "optuna", "--optuna-max-trials", "6", "--seed", "2", "-v")
    bounds = (
        *("--run-config-search-max-instance-count", "3", "--run-config-search-max-model-batch-size", "4"),
        *("--run-config-search-max-concurrency", "8", "--concurrency-sweep-disable"),
    )
    assert tool.profile(*words, *bounds) == 0
    assert len(tool.runs) <= 7
    assert "Number of configs in search space: 36" in capsys.readouterr().out


def test_quick_finds_the_best_corner_in_few_runs(tool):
    words = (*BOUNDED[2:], "--run-config-search-max-concurrency", "32", "--run-config-search-mode", "quick")
    assert tool.profile(*words) == 0
    assert len(tool.runs) <= 20
    best = tool.rows()[0]
    assert (best["Instance Group"], best["Max Batch Size"]) == ("2:CPU", "4")


def test_a_member_is_loaded_before_it_is_measured(tool):
    assert tool.profile("--bls-composing-models", "A", *BOUNDED, models="L") == 0
    assert tool.deployments[-1].loaded[0] == ["A_config_default", "L_config_default"]
    assert any("A_config_0" in names for names in tool.deployments[-1].loaded)


def test_our_own_command_has_its_own_mark(tool, capsys):
    from inferometer.cli import main as program
    from inferometer.dialects.model_analyzer.main import our_command

    words = ["-m", str(tool.folder / "repo"), "--profile-models", "W", "--seed", "1", *BOUNDED]
    assert our_command("profile", [*words, "--mode", "online"], profile=tool._search) == 0
    assert "[inferometer] Profile complete." in capsys.readouterr().out
    assert program.main(["report", "-n", "W_config_default", "-o", "csv"]) == 0
    assert (tool.folder / "reports/detailed/W_config_default/detailed_report.csv").exists()
    assert program.main(["report", "-n", "W_config_99"]) == 1
    assert "inferometer report: 'W_config_99' has not been measured" in capsys.readouterr().err


def test_every_variant_is_announced_and_named(tool, capsys):
    assert tool.profile(*BOUNDED, models="E") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "[Model Analyzer] Creating model config: E_config_default" in lines
    profiled = [line for line in lines if "Profiling" in line]
    assert profiled[0] == "[Model Analyzer] Profiling E_config_default: concurrency=8"
    assert "[Model Analyzer] Done gathering concurrency sweep measurements for reports" in lines


def test_a_folder_that_cannot_be_created_is_named(tool, capsys):
    assert tool.profile("-e", "/proc/none") == 1
    assert "'/proc/none' could not be written" in capsys.readouterr().err
    assert not tool.started


@pytest.mark.parametrize(
    ("words", "yaml"),
    [
        (["--analysis-models", "S"], None),
        (["--analysis-models", "S"], {"profile_models": ["A"]}),
        ([], {"profile_models": ["A"], "analysis_models": ["S"]}),
        ([], {"analysis_models": {"S": {"objectives": ["perf_throughput"]}}}),
    ],
    ids=("word", "word over the file's profile_models", "key beside profile_models", "mapping"),
)
def test_analyze_accepts_the_older_name_for_models(tool, words, yaml):
    assert tool.profile(*BOUNDED, models="A,S", yaml={"analysis_models": ["S"]}) == 0
    assert {row["Model"] for row in tool.rows()} == {"A", "S"}
    assert tool.main(["analyze", *tool._yaml(yaml), *words]) == 0
    assert {row["Model"] for row in tool.rows()} == {"S"}


def test_two_names_for_the_models_of_analyze_are_refused(tool, capsys):
    assert tool.main(["analyze", "--analysis-models", "S", "--profile-models", "A"]) == 1
    assert "--analysis-models and --profile-models" in "".join(capsys.readouterr())
