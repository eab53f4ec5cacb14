"""What a GPU machine without a network needs for `gpu_tests/text_server.py`, in one archive.

Run it as `python -m gpu_tests.pack`: it writes dist/gpu-site.tar.xz for Python 3.12 on x86_64, and prints the command
to run there. That machine must have torch, transformers and numpy.
"""

import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
ARCHIVE = ROOT / "dist" / "gpu-site.tar.xz"
THERE = ("numpy",)  # large, and beside torch anyway
SERVER = ("fastapi", "uvicorn", "openai")
TARGET = (
    *("--python-version", "3.12", "--only-binary=:all:"),
    *("--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64"),
)
COMMAND = (
    f"mkdir -p dist/gpu && tar -xJf {ARCHIVE.relative_to(ROOT)} -C dist/gpu && "
    "PYTHONPATH=src:dist/gpu/site python3 -m gpu_tests.text_server $OUT --site dist/gpu/server"
)


def main() -> int:
    ARCHIVE.parent.mkdir(exist_ok=True)
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = [one for one in ours if not one.startswith(THERE)]
    with tempfile.TemporaryDirectory() as place, tarfile.open(ARCHIVE, "w:xz") as archive:
        for name, packages in (("site", (*needed, "nvidia-ml-py")), ("server", SERVER)):
            folder = Path(place) / name
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(folder))
            subprocess.run([*pip, *TARGET, *packages], check=True)
            archive.add(folder, name)
    print(f"{ARCHIVE.relative_to(ROOT)}: {ARCHIVE.stat().st_size / 2**20:.0f} MiB\n{COMMAND}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
