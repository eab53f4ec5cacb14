"""`make release-check [TAG=v0.3.0]`: check that this commit is ready to be tagged."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import inferometer
from tools.changelog import CHANGES, read_fragments

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    tag = os.environ.get("TAG") or f"v{inferometer.__version__}"
    problems = [*release_problems(ROOT, inferometer.__version__, tag)]
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    if status.stdout:
        problems.append("the working tree has changes that are not committed")
    if problems:
        raise SystemExit("\n".join((f"not ready for {tag}:", *(f"- {problem}" for problem in problems))))
    print(f"ready: git tag {tag} && git push origin {tag}")


def release_problems(root: Path, version: str, tag: str) -> Iterator[str]:
    """Yield everything that does not match the tag."""
    if tag != f"v{version}":
        yield f"the tag {tag} does not match version {version} in src/inferometer/__init__.py"
    section = latest_section(root)
    if section != version:
        yield f"the first section of CHANGELOG.md is '{section}', not '{version}'"
    left = read_fragments(root / CHANGES.name)
    if left:
        yield f"changes/ still has {len(left)} fragments: run make changelog"
    yield from version_problems(root, version)


def latest_section(root: Path) -> str:
    """Return the heading of the first version in CHANGELOG.md."""
    found = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    return found[1].strip() if found else ""


def version_problems(root: Path, version: str) -> Iterator[str]:
    """Yield the files whose version differs from the package."""
    if not latest_section(root).startswith(version):
        yield f"CHANGELOG.md begins with '{latest_section(root)}', but the package is {version}"
    for name, pattern in (
        ("CITATION.cff", r"^version: (\S+)$"),
        ("README.md", r"^Version (\d+\.\d+\.\d+)"),
        ("docs/kuberay/raycluster.yaml", r"inferometer-ray:(\S+)"),
        ("docs/kuberay/rayjob.yaml", r"inferometer-ray:(\S+)"),
    ):
        stated = re.findall(pattern, (root / name).read_text(), re.MULTILINE)
        if set(stated) != {version}:
            yield f"{name} states version {' and '.join(stated) or 'nothing'}, but the package is {version}"


if __name__ == "__main__":
    main()
