"""The tests on the GPU of this machine, then its figures; one sentence where there is none."""

import subprocess
import sys

from gpu_tests import figures
from inferometer.observe.host import open_nvml


def main() -> int:
    if open_nvml() is None:
        print("Skipped: there is no GPU here, or nvidia-ml-py is missing (pip install 'inferometer[gpu]').")
        return 0
    code = subprocess.run([sys.executable, "-m", "pytest", "gpu_tests"], check=False).returncode
    return code or figures.main(sys.argv[1] if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    sys.exit(main())
