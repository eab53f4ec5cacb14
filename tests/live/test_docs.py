"""Every command in the docs works: the `sh` blocks of each document are run, in order, in one folder."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inferometer import api
from tests.support import fork_client
from tests.support.commands import fork_server_address
from tests.support.foreign import foreign_file
from tests.support.openai import FakeOpenAi
from tests.support.servers import Act, FakeModel, FakeTriton, Request, ScriptedServer, answer_json
from tests.support.text_apis import TextServer
from tests.support.tfserving import FakeTfServing
from tests.support.vocabularies import word_level

pytestmark = pytest.mark.live

METRICS = "vllm:num_requests_running 1.0\nvllm:num_requests_waiting 0.0\nvllm:kv_cache_usage_perc 0.1\n"
IRIS = FakeModel("iris", inputs=(("predict", "FP32", (4,)),))
ROOT = Path(__file__).parent.parent.parent
REPEATING = ("README.md", "coming-from.md")  # show commands of the guides, which are run there
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
# Commands of these use what those before them left behind.
BUILDING = ("config.md", "gate.md", "live-figures.md", "runs.md")
OUTPUTS = ("--json", "--html", "--markdown", "--junit", "-f", "-q")
ELSEWHERE = (
    "tune simple --ray local",
)  # run by test_tune_ray.py in make samples, with the words of the document

# Commands meet the server of the session, or a fake of the kind that the document speaks of, told by the port. Times
# are short, and promises such that busy machines keep them; the rest is as the document says.
SHIM = """#!{python} -IS
import os, sys
words = sys.argv[1:]
name = os.path.basename(sys.argv[0])
command = words[0] if words else ""

def put(value, *names):
    for place, word in enumerate(words):
        if word in names:
            words[place + 1] = value
            return
    words.extend([names[-1], value])

def is_saved(word):
    return word.endswith(".json") or set(word) <= set("0123456789abcdef")

def has(*names):
    return not set(words).isdisjoint(names)

def tenth(word):
    if word.endswith("0ms"):
        return word.replace("0ms", "ms")
    return word[:-1] + "00ms" if word.endswith("s") and word[:-1].isdigit() else word

is_shown = has("--schema", "list")
is_judging = command in ("find", "tune", "interfere", "diagnose", "capacity", "selftest")
is_judging |= words[:2] == ["twin", "check"]
is_judging |= command == "measure" and has("--slo", "--scenario") and not is_shown
is_load = name == "perf_analyzer" or command in ("measure", "find", "compare", "diagnose", "interfere")
if command == "serve":
    words = ["serve", "--help"]
elif command == "tune":
    put("5s", "--budget")
    put("p99<5s", "--slo")
elif command == "profile":
    put("8s", "--budget")
elif command == "capacity":
    put("p99<5s", "--slo")
elif command == "twin" and "check" in words:
    put("500ms", "-d")
elif is_load and not is_shown and not (command == "compare" and any(is_saved(word) for word in words[1:])):
    if not has("triton_c_api") and not any("localhost:" in word for word in words):
        words += ["-u", os.environ["DOC_GRPC" if "grpc" in [word.lower() for word in words] else "DOC_HTTP"]]
    for place in os.environ["DOC_PLACES"].split():
        port, address = place.split("=")
        words = [word.replace(port, address) for word in words]
    if name == "perf_analyzer":
        words += ["-p", "150", "-r", "3", "-s", "999999"]
    elif not has("--scenario", "-n", "--fixed-schedule", "--replay", "--shape-load", "--session-concurrency"):
        short = "100ms" if has("simple") else "200ms"
        if command == "measure" and has("simple") and not has("-d", "-r", "--json", "--slo"):
            put("40", "-n")  # which takes a fifth of the shortest duration
        else:
            put("1s" if command == "find" else "500ms" if has("ensemble_image") else short, "-d")
    elif has("--scenario"):
        put("500ms", "-d")
    if command == "diagnose" and has("ensemble_image"):
        put("1:2", "-c")
    for place, word in enumerate(words):
        if word in ("-c", "--concurrency-range") and words[place + 1] in ("1:8", "1:4"):
            words[place + 1] = "1:2"
    if has("--shape-load"):
        place = words.index("--shape-load") + 1
        words[place] = " ".join(map(tenth, words[place].split()))
    if "--apply" in words:
        put("1s", "--budget")
    if command == "find":
        put("p50<5s", "--slo")  # which a few requests decide
    elif has("--slo"):
        put("p99<5s", "--slo")
if is_judging and not has("--allow-inconclusive"):
    words.append("--allow-inconclusive")  # in so short a time
os.execv({python!r}, [{python!r}, "-IS", {client!r}, {fork_server!r}, name, *words])
"""


def blocks(document):
    return re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)


def said_in_guides():
    """Lines with a whole command."""
    blocks_of_guides = (
        block for document in DOCUMENTS if document.name not in REPEATING for block in blocks(document)
    )
    return {line for block in blocks_of_guides for line in block.splitlines() if _is_whole(line)}


def _is_whole(line):
    return line.startswith("inferometer ") and not line.endswith("\\")


def _load(line):
    """The words of a command without its outputs, and which outputs it has."""
    words, outputs = shlex.split(line, comments=True), []
    for name in OUTPUTS:
        if name in words:
            place = words.index(name)
            outputs.append(name)
            del words[place : place + (1 if name == "-q" else 2)]
    return tuple(words), outputs


def repeated_lines():
    """By document, the lines with a command that another line runs too, perhaps with outputs besides."""
    found: dict[tuple[str, ...], list[tuple[int, int, str, str]]] = {}
    for document in DOCUMENTS:
        for number, line in enumerate("\n".join(blocks(document)).splitlines()):
            if _is_whole(line) and "localhost:" in line and document.name not in (*BUILDING, *REPEATING):
                words, outputs = _load(line)
                found.setdefault(words, []).append((-len(outputs), number, document.name, line))
    repeated: dict[str, set[str]] = {}
    for lines in found.values():
        kept, *others = sorted(lines)
        for outputs, _, name, line in others:
            if outputs == 0 and (name, line) != kept[2:]:
                repeated.setdefault(name, set()).add(line)
    return repeated


def blocks_to_run(document):
    """Without what is run in another place. A document that repeats the guides runs only what they do not say."""
    known = repeated_lines().get(document.name, set())
    if document.name in REPEATING:
        known = said_in_guides()
        loads = {_load(line)[0] for line in known}  # perhaps with outputs besides
        own = {line for block in blocks(document) for line in block.splitlines() if _is_whole(line)}
        known |= {line for line in own if _load(line)[0] in loads and not _load(line)[1]}
    for block in blocks(document):
        lines = [
            line
            for line in block.splitlines()
            if line not in known and not any(command in line for command in ELSEWHERE)
        ]
        if lines:
            yield "\n".join(lines)


def write_shims(folder):
    for name in ("inferometer", "perf_analyzer"):
        shim = folder / name
        shim.write_text(
            SHIM.format(python=sys.executable, client=fork_client.__file__, fork_server=fork_server_address())
        )
        shim.chmod(0o755)


@pytest.mark.machine(reason="searches of a second and loads of 100 ms need a core that is free now and then")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_of_the_document_run(document, triton, tmp_path):
    from inferometer.cli.demo import write_input

    shims = tmp_path / "bin"
    shims.mkdir()
    write_shims(shims)
    work = tmp_path / "work"
    write_input(work / "inferometer-demo")
    (work / "src").symlink_to(
        ROOT / "src"
    )  # documents name the example pictures by their place in the repository
    (work / "tokenizer.json").write_text(word_level().to_str())
    if document.name == "files.md":
        _copy_foreign_files(work)
    with (
        FakeOpenAi(metrics=METRICS, is_queue=True) as openai,
        FakeTriton(control=_plain, model=IRIS) as kserve,
        ScriptedServer(_page) as page,
        FakeTfServing() as tfserving,
        TextServer() as texts,
    ):
        places = {
            8000: triton.http_address,
            8001: triton.grpc_address,
            8080: kserve.server.address,
            9000: openai.server.address,
            9001: texts.address,
            11434: texts.address,
            5000: page.address,
            8500: tfserving.grpc.address,
            8501: tfserving.http.address,
        }
        _run_blocks(document, work, shims, triton, places)


def _copy_foreign_files(work):
    for path in foreign_file("").iterdir():
        shutil.copy(path, work)
    shutil.copy(foreign_file("mlperf_server.txt"), work / "mlperf_log_summary.txt")


def _plain(request: Request) -> Act | None:
    """A KServe v2 server without Triton's extensions; on the same port, TorchServe's predictions."""
    if request.path.startswith("/predictions/"):
        return answer_json({"tabby": 0.9})
    if request.path == "/ping":
        return answer_json({"status": "Healthy"})
    if request.path == "/v2":
        return answer_json({"name": "mlserver", "version": "1.7.1", "extensions": []})
    return answer_json({}, 404) if request.path.endswith(("/config", "/stats", "/index")) else None


def _page(request: Request) -> Act:
    return answer_json({"score": 1})


def _run_blocks(document, work, shims, triton, places):
    environment = os.environ | {
        "PATH": f"{shims}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DOC_HTTP": triton.http_address,
        "DOC_GRPC": triton.grpc_address,
        "INFEROMETER_STORE": ".inferometer",
        "XDG_STATE_HOME": str(work / "state"),
        "DOC_PLACES": " ".join(f"localhost:{port}={address}" for port, address in places.items()),
    }
    for block in blocks_to_run(document):
        done = subprocess.run(
            ["bash", "-ec", block],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def python_blocks():
    return [
        pytest.param(code, document.name == "README.md", id=f"{document.name} {number}")
        for document in DOCUMENTS
        for number, code in enumerate(
            re.findall(r"^```python\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
        )
    ]


@pytest.fixture(scope="module")
def saved_run(triton, tmp_path_factory):
    path = tmp_path_factory.mktemp("python") / "before.json"
    api.save(api.measure("simple", url=triton.http_address, duration_s=0.3), str(path))
    return path


@pytest.mark.filterwarnings("ignore:unclosed file")  # a user may leave that to the interpreter
@pytest.mark.parametrize(("code", "is_first"), python_blocks())
def test_python_of_the_document_runs(code, triton, is_first, saved_run, tmp_path, monkeypatch, capfd):
    code = code.replace("localhost:8000", triton.http_address)
    code = re.sub(r"(concurrency=\[1, 2, 4\]|rate=100)", r"\1, duration_s=0.3", code)
    shutil.copy(saved_run, tmp_path)
    monkeypatch.chdir(tmp_path)
    if is_first:  # as a user runs it, with workers that start as everywhere
        subprocess.run([sys.executable, "-c", code], timeout=300, check=True)
    else:
        exec(compile(code, "document", "exec"), {"__name__": "__main__"})
    assert capfd.readouterr().out  # what the block prints


def test_the_site_is_made_without_a_warning(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index.html", "command-line.html", "python-api.html", "search/search_index.js"):
        assert (tmp_path / "site" / page).stat().st_size > 1000
    for page in (tmp_path / "site").glob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text())
        assert fetched == [], page.name
    assert json.loads((tmp_path / "site" / "schemas" / "result.json").read_text())["properties"]
    assert "--max-outstanding" in (tmp_path / "site" / "command-line.html").read_text()
    assert "find(" in re.sub("<[^>]+>", "", (tmp_path / "site" / "python-api.html").read_text())
