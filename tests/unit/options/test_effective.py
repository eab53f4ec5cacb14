"""The settings of a result: typed, derived from the options, and compatible with files of 0.1."""

import dataclasses

import pytest

from inferometer.base.answer_file import from_json, plain, to_json
from inferometer.options.effective import Effective, effective
from inferometer.options.options import Options
from inferometer.stats.result import Result
from tests.support.reports import sample_result

KEYS_OF_0_1 = """
session_concurrency mode request_rate_start request_rate_end distribution service_kind protocol shared_memory
input_format output_format batch batch_given concurrency_start concurrency_end concurrency_step request_count
schedule_s schedule speed periodic request_period warmup_request_count measurement_mode measurement_interval_ms
measurement_request_count stopping stability_percentage max_trials duration_s precision percentile latency_limit_ms
asynchronous request_timeout_s max_error_rate workers verbose verbose_csv collect_metrics metrics_interval_ms
binary_search data_given data_streams data_steps
"""


LATER_KEYS = ("api", "burstiness", "think_time")


def test_the_names_of_0_1_are_kept() -> None:
    assert sorted(plain(Effective())) == sorted((*KEYS_OF_0_1.split(), *LATER_KEYS))


def test_options_are_taken_over_by_name() -> None:
    found = effective(
        Options(protocol="grpc", workers="auto", batch=4, request_count=7), batch=4, request_count=9
    )
    assert (found.protocol, found.workers, found.batch, found.request_count) == ("grpc", "auto", 4, 9)


def test_defaults_are_those_of_the_options() -> None:
    derived = {"service_kind", "protocol", "batch"}
    shared = {field.name for field in dataclasses.fields(Options)} - derived
    plain_options = Options()
    for field in dataclasses.fields(Effective):
        if field.name in shared:
            assert field.default == getattr(plain_options, field.name), field.name


def test_a_file_round_trip_preserves_the_settings() -> None:
    made = dataclasses.replace(sample_result(), effective=Effective(periodic=(1, 4, 1), workers="auto"))
    assert from_json(to_json(made), "a.json", Result).effective == made.effective


def test_settings_can_be_read_by_name_as_in_0_1() -> None:
    found = Effective(protocol="grpc")
    assert found["protocol"] == found.get("protocol") == "grpc"
    assert found.get("colour", "none") == "none"
    with pytest.raises(KeyError):
        found["colour"]
