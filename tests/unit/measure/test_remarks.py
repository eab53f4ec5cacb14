"""Remarks on a level besides its figures."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.base.notes import Note
from inferometer.measure.conclusion import machine_remarks, member_remarks
from inferometer.observe.statistics import Counters, ModelStatistics
from inferometer.stats.measurement import ClientCost, FailureGroup


def model(name, *members, **flags):
    return ModelStatistics(name, "1", Counters(), members=members, **flags)


CALLED, RESTED = model("called"), model("rested", was_called=False)


@pytest.mark.parametrize(
    ("server", "texts"),
    [
        (model("alone"), []),
        (model("bls", CALLED), []),
        (model("bls", CALLED, RESTED), ["'bls' did not call 'rested'"]),
        (model("ensemble", CALLED, RESTED, is_ensemble=True), []),  # its cache may have answered
    ],
)
def test_listed_model_that_was_not_called_is_noted(server, texts):
    remarks = list(member_remarks(server))
    assert [remark.text for remark in remarks] == texts
    assert {remark.note for remark in remarks} <= {Note.MEMBER_NOT_CALLED}


def test_other_versions_that_were_called_are_noted_however_deep():
    server = model("bls", model("ensemble", model("leaf", also_called=("2", "3")), is_ensemble=True))
    (remark,) = member_remarks(server)
    assert remark.note is Note.SEVERAL_VERSIONS
    assert remark.text == "version 1 of 'leaf' is shown, but version 2, 3 was also called"


@pytest.mark.parametrize(("stolen", "is_said"), [(0.0, False), (0.04, False), (0.05, True), (1.2, True)])
def test_stolen_cpu_time_is_noted(stolen, is_said):
    found: Any = SimpleNamespace(client=ClientCost(1, 0.1, 30.0, 0, 0, stolen_cores=stolen), failures=())
    assert [remark.note for remark in machine_remarks(found)] == ([Note.STOLEN] if is_said else [])


@pytest.mark.parametrize(
    ("files", "limit", "reason", "is_said"),
    [
        (10, 1024, "", False),
        (1020, 1024, "", True),
        (1024, 1024, "", True),
        (10**6, 0, "", False),
        (10, 64, "cannot create a socket: Too many open files", True),
        (64, 64, "cannot create a socket: Too many open files", True),
    ],
)
def test_files_that_are_used_up_are_noted(files, limit, reason, is_said):
    client = ClientCost(1, 0.1, 30.0, 0, 0, files=files, file_limit=limit)
    found: Any = SimpleNamespace(client=client, failures=(FailureGroup("connect", 3, reason, 0.1, 0.2),))
    assert [remark.note for remark in machine_remarks(found)] == ([Note.FEW_FILES] if is_said else [])


@pytest.mark.parametrize(
    ("reason", "is_said"), [("Cannot assign requested address", True), ("Connection refused", False)]
)
def test_ports_that_are_used_up_are_noted(reason, is_said):
    failure = FailureGroup("connect", 3, f"cannot connect to 127.0.0.1:8000: {reason}", 0.1, 0.2)
    found: Any = SimpleNamespace(client=ClientCost(1, 0.1, 30.0, 0, 0, connects=28_232), failures=(failure,))
    assert [remark.note for remark in machine_remarks(found)] == ([Note.FEW_PORTS] if is_said else [])
