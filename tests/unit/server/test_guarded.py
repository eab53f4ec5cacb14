"""Extraction of the reason for a failed start from a tritonserver log."""

import pytest

from inferometer.server.guarded import end_words, explaining_lines, is_about_models, ports_in_use

NOISE = """\
E1115 04:07:31.506159 5771 server.cc:241] "CudaDriverHelper has not been initialized."
I1115 04:07:31.514529 5771 server.cc:604]
Error: Failed to initialize NVML
W1115 04:07:31.515731 5771 metrics.cc:798] "DCGM unable to start: DCGM initialization error"
error: creating server: Internal - failed to load all models
"""
IMPORT = (
    "E1115 04:05:55.684384 4299 model_lifecycle.cc:642] \"failed to load 'broken' version 1: Internal: "
    "ModuleNotFoundError: No module 'gone'\\n\\nAt:\\n  /m/1/model.py(1): <module>\\n  <frozen>\\n\"\n"
)
POLL = (
    "E1115 04:07:31.514441 5771 model_repository_manager.cc:1460] "
    "\"Poll failed for model directory 'x': failed to read text proto from x/config.pbtxt\"\n"
)
PORT = (
    'E1115 04:06:27.815718 4542 main.cc:257] "failed to start HTTP service: Unavailable - '
    "Socket '127.0.0.1:18300' already in use \"\n"
)


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (
            NOISE + IMPORT,
            (
                "failed to load 'broken' version 1: Internal: ModuleNotFoundError: No module 'gone' "
                "at /m/1/model.py(1): <module>",
            ),
        ),
        (
            POLL + NOISE,
            ("Poll failed for model directory 'x': failed to read text proto from x/config.pbtxt",),
        ),
        (
            "/bin/tritonserver: unrecognized option '--x'\nUsage:",
            ("/bin/tritonserver: unrecognized option '--x'",),
        ),
        ("one\n\ntwo\n", ("one", "two")),
        ("", ()),
    ],
)
def test_telling_lines(log: str, lines: tuple[str, ...]):
    assert explaining_lines(log) == lines


def test_a_refused_port_is_found():
    assert ports_in_use(NOISE + PORT) == (18300,)
    assert ports_in_use(NOISE + IMPORT) == ()


def test_model_failures_are_distinguished_from_server_failures():
    assert is_about_models(NOISE + IMPORT)
    assert is_about_models(POLL)
    assert not is_about_models(NOISE + PORT)


@pytest.mark.parametrize(
    ("code", "log", "words"),
    [
        (
            3,
            "first\n last words \n\n",
            "exited with status 3; its last line: last words; see its log {log}",
        ),
        (-9, "", "was killed by SIGKILL"),
        (-250, None, "was killed by signal 250"),
        (1, "x" * 100_000, "exited with status 1; its last line: " + "x" * 400 + "; see its log {log}"),
    ],
)
def test_how_a_process_ended(tmp_path, code, log, words):
    path = tmp_path / "server.log"
    if log is not None:
        path.write_text(log)
    assert end_words(code, path) == words.format(log=path)
