"""A `model-analyzer` in a separate folder, without a browser: drawings stay SVG, which is fast."""

import pytest

from tests.unit.dialects.model_analyzer.analyzer import Analyzer, Stub


@pytest.fixture
def no_browser(monkeypatch):
    monkeypatch.setattr("inferometer.report.chromium.NAMES", ())


@pytest.fixture
def tool(tmp_path, monkeypatch, no_browser):
    monkeypatch.chdir(tmp_path)
    return Analyzer(tmp_path)


@pytest.fixture
def stub(tmp_path, monkeypatch):
    return Stub.made(tmp_path, monkeypatch)
