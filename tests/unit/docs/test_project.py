"""What the project's own files say about it: version, extras, pins and news fragments."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import inferometer
from tools import changelog, pins, pythons, release, unit_elsewhere
from tools.changelog import Fragment, FragmentError
from tools.pins import Target

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


# --- version


def test_every_file_states_the_version_of_the_package():
    assert [*release.version_problems(ROOT, inferometer.__version__)] == []


def test_a_file_with_another_version_is_named():
    problems = "\n".join(release.version_problems(ROOT, "9.9.9"))
    for name in ("CHANGELOG.md", "CITATION.cff", "README.md", "docs/kuberay/rayjob.yaml"):
        assert name in problems


def test_a_release_needs_its_tag_and_no_fragments(tmp_path: Path):
    (tmp_path / "docs/kuberay").mkdir(parents=True)
    for name in ("CITATION.cff", "README.md", "docs/kuberay/raycluster.yaml", "docs/kuberay/rayjob.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "changes").mkdir()
    version = inferometer.__version__
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}\n\n- All.\n")
    assert [*release.release_problems(tmp_path, version, f"v{version}")] == []
    (tmp_path / "changes/more.added.md").write_text("More.")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}, unreleased\n")
    problems = [*release.release_problems(tmp_path, version, "v0.1.0")]
    assert [re.search("tag|section|fragments", problem)[0] for problem in problems] == [
        "tag",
        "section",
        "fragments",
    ]


# --- extras and pins


def test_every_extra_that_we_name_exists():
    files = [
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("src/**/*.md"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "README.md",
    ]
    named = {
        extra
        for path in files
        for found in re.findall(r"(?:inferometer|'\.)\[([a-z,]+)\]", path.read_text())
        for extra in found.split(",")
    }
    assert {"grpc", "triton"} <= named
    assert named <= set(EXTRAS)


def test_all_has_every_extra_for_users():
    (line,) = EXTRAS["all"]
    listed = set(re.fullmatch(r"inferometer\[(.+)\]", line)[1].split(","))
    assert listed == set(EXTRAS) - {"all", "docs", "test", "dev"}


def test_the_docs_have_a_row_for_every_extra():
    rows = re.findall(r"^\| `([a-z]+)` \|", (ROOT / "docs/install.md").read_text(), re.MULTILINE)
    assert set(rows) >= set(EXTRAS) - {"docs", "test", "dev"}


def test_every_dependency_is_explained():
    table = (ROOT / "CONTRIBUTING.md").read_text()
    for line in PROJECT["dependencies"]:
        assert f"| {re.match('[a-z0-9]+', line)[0]} |" in table


@pytest.mark.parametrize("package", ["protobuf", "tritonclient", "grpcio", "numpy"])
def test_extras_agree_on_the_ranges_that_they_share(package: str):
    found = {
        re.sub(r"\[.*?\]", "", line)
        for lines in EXTRAS.values()
        for line in lines
        if re.match(rf"{package}[\[<>=]", line)
    }
    assert len(found) == 1


def test_every_requirement_of_dev_is_pinned_for_every_python():
    text = (ROOT / "constraints.txt").read_text()
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
    assert "pip" in pinned
    wanted = [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
    names = {re.match(r"[A-Za-z0-9_-]+", line)[0].lower() for line in wanted}
    assert names - {"inferometer", "nvidia-ml-py"} <= set(pinned)


def test_pins_have_markers_only_where_targets_differ():
    resolved = {
        Target("3.11", "x86_64"): {"same": "1", "numpy": "1.26", "wheel-of-one": "3"},
        Target("3.11", "aarch64"): {"same": "1", "numpy": "1.26", "wheel-of-one": "2"},
        Target("3.13", "x86_64"): {"same": "1", "numpy": "2.3", "only-here": "4", "wheel-of-one": "3"},
    }
    assert pins.render(resolved).splitlines() == [
        'numpy==1.26 ; python_version == "3.11"',
        'numpy==2.3 ; python_version == "3.13"',
        "only-here==4",
        "same==1",
        'wheel-of-one==3 ; python_version == "3.11" and platform_machine == "x86_64"',
        'wheel-of-one==2 ; python_version == "3.11" and platform_machine == "aarch64"',
        'wheel-of-one==3 ; python_version == "3.13"',
    ]


def test_a_report_of_pip_gives_normal_names_without_ourselves():
    rows = [("Jinja2", "3.1.6"), ("zope.event", "6.2"), ("inferometer", "0.3.0")]
    report: Any = {"install": [{"metadata": {"name": name, "version": version}} for name, version in rows]}
    assert pins.versions(report) == {"jinja2": "3.1.6", "zope-event": "6.2"}


def test_the_supported_pythons_are_those_of_pyproject():
    assert pythons.claimed_versions()[0] == PROJECT["requires-python"].removeprefix(">=")


# --- news fragments


def test_every_fragment_follows_its_format():
    changelog.read_fragments(ROOT / "changes")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("Tune.added.md", "It is new.", "NAME.KIND.md"),
        ("tune.md", "It is new.", "NAME.KIND.md"),
        ("tune.feature.md", "It is new.", "'feature' is not a kind; choose from added"),
        ("tune.added.md", " \n", "is empty"),
        ("tune.added.md", "One.\n\nTwo.", "several paragraphs"),
        ("tune.added.md", "- It is new.", "starts with markup"),
        ("tune.added.md", "It is new", "does not end with a period"),
    ],
)
def test_a_bad_fragment_is_refused(name: str, text: str, message: str):
    with pytest.raises(FragmentError, match=message) as caught:
        changelog.parse(name, text)
    assert name in str(caught.value)


NEWS = (Fragment("b", "fixed", "It holds now."), Fragment("a", "added", "A " + "word " * 40 + "more."))
LATER = "## 0.2.0\n\n- Old.\n"


@pytest.mark.parametrize(
    ("before", "own"),
    [
        (f"## 0.3.0, unreleased\n\n{changelog.PLACEHOLDER}\n\n{LATER}", ""),
        (LATER, ""),
        (f"## 0.3.0\n\nOne line.\n\n{LATER}", "One line.\n\n"),
    ],
    ids=["placeholder", "no section", "a section with text"],
)
def test_fragments_become_the_section_of_the_version(before: str, own: str):
    made = changelog.with_entries(f"# Changelog\n\nWords.\n\n{before}", "0.3.0", NEWS)
    assert made.startswith(f"# Changelog\n\nWords.\n\n## 0.3.0\n\n{own}Added\n- A word")
    assert made.endswith(f"word more.\n\nFixed\n- It holds now.\n\n{LATER}")
    assert max(map(len, made.splitlines())) <= changelog.WIDTH


def test_a_python_that_was_chosen_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFEROMETER_PYTHONS", "3.99")
    with pytest.raises(SystemExit, match=r"Python 3\.99 is not on this machine"):
        unit_elsewhere.main()
