"""Credentials go to the server they were given for, and secrets into no file."""

from pathlib import Path

import pytest

from inferometer.cli import main
from tests.support.commands import call_here
from tests.support.grpc_servers import FakeGrpcTriton
from tests.support.servers import Act, FakeTriton, Request, ScriptedServer, answer

SECRET = "S3CRET-canary"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("INFEROMETER_STORE", "kept")
    monkeypatch.setenv("KEY", SECRET)
    return tmp_path


def written(folder: Path) -> str:
    """All that was written below a folder."""
    return "\n".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


REQUESTS = (
    ("ADDRESS", "--path", f"/x?api_key={SECRET}"),
    (f"http://ADDRESS/x?token={SECRET}",),
    ("ADDRESS", "--path", "/x", "--body", f'{{"password": "{SECRET}"}}'),
    ("ADDRESS", "--path", "/x", "--body", SECRET),
    ("ADDRESS", "--path", f"/x?n=1&key={SECRET}", "-H", f"x-key: {SECRET}"),
    ("ADDRESS", "--path", "/x", "--api-key-env", "KEY"),
)


OUTPUTS = (
    *("--json", "out.json", "--html", "out.html", "--markdown", "out.md", "--junit", "out.xml"),
    *("-f", "out.csv"),
)


@pytest.mark.parametrize("words", REQUESTS)
def test_no_file_and_no_message_has_a_secret(words: tuple[str, ...], store: Path) -> None:
    with ScriptedServer(lambda request: answer(b"{}")) as server:
        words = tuple(word.replace("ADDRESS", server.address) for word in words)
        ended = call_here(main.main, "measure", *words, "--service-kind", "http", "-n", "2", *OUTPUTS)
        assert ended.code == 0, ended.stderr
        sent = "".join(f"{request.path}{request.headers}{request.body!r}" for request in server.requests)
    assert SECRET in sent
    assert SECRET not in ended.stdout + ended.stderr
    assert (store / "kept").is_dir()
    assert SECRET not in written(store)


def test_secrets_that_a_server_repeats_are_masked(store: Path) -> None:
    def echo(request: Request) -> Act:
        sent = [*(value for _, value in request.headers), request.path, request.body.decode()]
        return answer(" | ".join(sent).encode(), 401)

    secrets = (
        *("--path", f"/x?api_key={SECRET}-query", "--body", f"{SECRET}-body", "--api-key-env", "KEY"),
        *("-H", f"X-Tenant: {SECRET}-header", "-H", f"Cookie: a={SECRET}-cookie"),
    )
    with ScriptedServer(echo) as server:
        words = (server.address, "--service-kind", "http", "-n", "2", *secrets, *OUTPUTS)
        ended = call_here(main.main, "measure", *words)
    assert "http 401" in ended.stdout
    assert SECRET not in ended.stdout + ended.stderr
    assert "*** | " in written(store)
    assert SECRET not in written(store)


def credentials(requests: list[Request]) -> list[str]:
    return [name for request in requests for name, value in request.headers if SECRET in value]


METRICS = ((), ("--metrics-url", "http://METRICS/metrics"), ("--metrics-url", "METRICS"))


@pytest.mark.parametrize("given", [("-H", f"Authorization: Bearer {SECRET}"), ("--api-key-env", "KEY")])
@pytest.mark.parametrize("where", METRICS)
def test_metrics_of_another_origin_get_no_credentials(
    given: tuple[str, ...], where: tuple[str, ...], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = answer(b"nv_inference_count 1\n", 200, {"Content-Type": "text/plain"})
    with ScriptedServer(lambda request: page) as metrics, FakeTriton() as server:
        monkeypatch.setattr("inferometer.measure.prepare.METRICS_PORT", metrics.port)
        where = tuple(word.replace("METRICS", metrics.address) for word in where)
        words = (server.server.address, "fake", "-n", "2", "--collect-metrics", "--no-store")
        ended = call_here(main.main, "measure", *words, *where, *given)
        assert ended.code == 0, ended.stderr
        assert metrics.requests
        assert credentials(metrics.requests) == []
        assert credentials(server.server.requests) != []


def test_servers_of_a_scenario_get_only_credentials_that_are_for_them(store: Path) -> None:
    with FakeTriton() as own, FakeTriton() as other:
        (store / "load.yaml").write_text(
            f"classes:\n  a: {{model: fake, rate: 20}}\n"
            f"  b: {{model: fake, rate: 20, server: '{other.server.address}'}}\n"
            "phases: [{name: steady, for: 200ms}]\n"
        )
        words = (
            own.server.address,
            "--scenario",
            "load.yaml",
            "--no-store",
            "-H",
            f"authorization: {SECRET}",
        )
        ended = call_here(main.main, "measure", *words)
        assert ended.code == 0, ended.stderr
        assert credentials(own.server.requests) != []
        assert other.inferences
        assert credentials(other.server.requests) == []


def test_a_key_is_sent_over_grpc(store: Path) -> None:
    with FakeGrpcTriton() as server:
        words = (server.server.address, "fake", "--grpc", "-n", "2", "--no-store", "--api-key-env", "KEY")
        ended = call_here(main.main, "measure", *words)
        assert ended.code == 0, ended.stderr
        assert len(server.inferences) == 2
        assert all(("authorization", f"Bearer {SECRET}") in call.headers for call in server.inferences)
