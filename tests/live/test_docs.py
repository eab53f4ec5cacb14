"""Every command in the docs works: the `sh` blocks of each document are run, in order, in one folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

# Commands meet the session's server, and short windows; whatever the document says stands before it.
SHIM = """#!{python}
import os, sys
words = sys.argv[1:]
name = os.path.basename(sys.argv[0])
module = "inferometer.cli.main" if name == "inferometer" else "inferometer.cli.perf_analyzer"
if name == "inferometer" and words[:1] == ["serve"]:
    words = ["serve", "--help"]
elif words[:1] == ["compare"] and any(word.endswith(".json") for word in words):
    pass
elif name == "perf_analyzer" or words[:1] in (["measure"], ["find"], ["compare"], ["diagnose"]):
    is_grpc = any(word.lower() == "grpc" for word in words)
    if "-u" not in words or "localhost" in words[words.index("-u") + 1]:
        words += ["-u", os.environ["DOC_GRPC" if is_grpc else "DOC_HTTP"]]
    short = ["--duration", "4s" if words[0] == "find" else "500ms"]
    words += ["-p", "150", "-r", "3", "-s", "1000"] if name == "perf_analyzer" else short
os.execv(sys.executable, [sys.executable, "-m", module, *words])
"""


def blocks(document):
    return re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)


def write_shims(folder):
    for name in ("inferometer", "perf_analyzer"):
        shim = folder / name
        shim.write_text(SHIM.format(python=sys.executable))
        shim.chmod(0o755)


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
    environment = os.environ | {
        "PATH": f"{shims}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DOC_HTTP": triton.http_address,
        "DOC_GRPC": triton.grpc_address,
    }
    for block in blocks(document):
        done = subprocess.run(
            ["bash", "-ec", block],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_python_of_the_readme_runs(triton, tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    code = code.replace("localhost:8000", triton.http_address).replace("concurrency=(1, 4)", "duration_s=0.3")
    before = (
        f"from inferometer import api\nfrom inferometer.measure import result\nfrom pathlib import Path\n"
        f"result.write(api.measure('simple', url='{triton.http_address}', duration_s=0.3), Path('before.json'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", before + code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Estimate(value=" in done.stdout
