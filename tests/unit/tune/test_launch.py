"""Command lines of servers that we start."""

from pathlib import Path

from inferometer.server.ports import Ports
from inferometer.tune.servers import EmbeddedServer, server_words
from inferometer.tune.settings import LaunchSettings

FLAGS = (
    ("http-port", "9"),
    ("model-control-mode", "poll"),
    ("model_repository", "/x"),
    ("log-verbose", "1"),
    ("disable-auto-complete-config", ""),
)
KEPT = ["--log-verbose", "1", "--disable-auto-complete-config"]


def test_flags_set_by_the_tool_cannot_be_overridden_on_an_installed_server():
    words = server_words(LaunchSettings(repositories=(Path("/repo"),), flags=FLAGS), Ports(1, 2, 3))
    assert words[:5] == ["--model-repository", "/repo", *KEPT]
    assert words[words.index("--http-port") + 1] == "1"
    assert words[words.index("--model-control-mode") + 1] == "explicit"
    assert words.count("--http-port") == words.count("--model-repository") == 1


def test_flags_set_by_the_tool_cannot_be_overridden_on_the_embedded_server():
    server = EmbeddedServer(
        LaunchSettings(repositories=(Path("/repo"),), flags=FLAGS, metrics_interval_ms=250)
    )
    assert list(server._server.extra_args) == [*KEPT, "--metrics-interval-ms", "250"]
