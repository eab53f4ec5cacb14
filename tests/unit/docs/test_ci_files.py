"""Files for other people's CI: they parse, their command lines are ours, and their scripts pass on the verdict."""

import os
import re
import shlex
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import inferometer
from inferometer.cli.main import COMMANDS
from inferometer.options.command_line import Request
from inferometer.options.command_line import read as read_words

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "docs/examples/inferometer-gate.gitlab-ci.yml").read_text())[
    ".inferometer-gate"
]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
CONTAINER = (ROOT / "packaging/Containerfile").read_text()
RECIPE = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

(_, JUDGE) = ACTION["runs"]["steps"]
VARIABLES = {
    '"$URL"': "localhost:8000",
    '${MODEL:+"$MODEL"}': "simple",
    '"${load[@]}"': ACTION["inputs"]["load"]["default"],
    '"${gate[@]}"': "--runs 10",
    '"${GITHUB_REF_NAME:-local}"': "main",
    '"$INFEROMETER_URL"': GITLAB["variables"]["INFEROMETER_URL"],
    '"$INFEROMETER_MODEL"': GITLAB["variables"]["INFEROMETER_MODEL"],
    "$INFEROMETER_LOAD": GITLAB["variables"]["INFEROMETER_LOAD"],
    '"$CI_COMMIT_REF_NAME"': "main",
}


def command_lines(script: str) -> list[list[str]]:
    for variable, value in VARIABLES.items():
        script = script.replace(variable, value)
    return [
        shlex.split(found)
        for found in re.findall(r"\binferometer ((?:measure|gate|check|serve)\b[^;|&>}\n]*)", script)
    ]


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        (JUDGE["run"], ["measure", "gate"]),
        ("\n".join(GITLAB["script"]), ["measure", "gate"]),
        *((hook["entry"], ["check"]) for hook in HOOKS),
        ("\n".join(re.findall(r"run .* (inferometer measure .*)", CONTAINER)), ["measure"]),
        ("\n".join(RECIPE["tests"][1]["script"]), ["measure"]),
    ],
)
def test_every_command_line_is_accepted_by_our_parser(script: str, commands: list[str]) -> None:
    lines = command_lines(script)
    assert [name for name, *_ in lines] == commands
    for name, *words in lines:
        assert "$" not in " ".join(words)
        assert isinstance(read_words(words, import_module(f"inferometer.cli.{name}").COMMAND), Request)


def test_the_action_declares_what_it_uses() -> None:
    used = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
    assert all("${{" not in step["run"] for step in ACTION["runs"]["steps"])  # inputs must not become script


@pytest.mark.parametrize(
    ("codes", "expected", "verdict", "measured"),
    [
        ((0,), 0, "passed", 1),
        ((1,), 1, "failed", 1),
        ((2, 1), 1, "failed", 2),
        ((2, 2), 0, "inconclusive", 2),
        ((3,), 1, "invalid", 1),
    ],
)
def test_the_scripts_pass_on_the_verdict(
    tmp_path: Path, codes: tuple[int, ...], expected: int, verdict: str, measured: int
) -> None:
    shim = (
        'inferometer() { case $1 in measure) echo "$@" >> measured;; gate) echo page > gate.md; '
        "code=$(head -n1 codes); sed -i 1d codes; return $code;; esac; }\n"
    )
    environment = {
        "URL": "localhost:8000",
        "MODEL": "simple",
        "LOAD": "-c 4 -H 'a: b c'",
        "GATE": "",
        "GITHUB_STEP_SUMMARY": "summary",
        "GITHUB_OUTPUT": "output",
        "INFEROMETER_URL": "localhost:8000",
        "INFEROMETER_MODEL": "simple",
        "CI_COMMIT_REF_NAME": "main",
    }
    for name, script in (("action", JUDGE["run"]), ("gitlab", "\n".join(GITLAB["script"]))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "codes").write_text("\n".join(map(str, codes)) + "\n")
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", shim + script],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        assert (done.returncode, len((folder / "measured").read_text().splitlines())) == (expected, measured)
    action = tmp_path / "action"
    assert (action / "summary").read_text() == "page\n"
    assert (action / "output").read_text() == f"verdict={verdict}\n"


def test_the_action_says_that_the_measurement_failed(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("page of an earlier job")
    shim = 'inferometer() { test "$1" != measure || return 3; echo page > gate.md; }\n'
    environment = {"GITHUB_STEP_SUMMARY": "summary", "GITHUB_OUTPUT": "output", "LOAD": "-c 4", "GATE": ""}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", shim + JUDGE["run"]],
        cwd=tmp_path,
        env={**os.environ, **environment, "URL": "localhost:8000", "MODEL": ""},
        check=False,
    )
    assert done.returncode == 1
    assert (tmp_path / "output").read_text() == "verdict=invalid\n"
    assert "there is no measurement" in (tmp_path / "summary").read_text()


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("inferometer.yaml", ["inferometer-options"]),
        ("deploy/inferometer.yml", ["inferometer-options"]),
        ("my-inferometer.yaml", []),
        ("scenarios/shop.yaml", ["inferometer-scenarios"]),
        ("load/peak.scenario.yml", ["inferometer-scenarios"]),
        ("docker-compose.yaml", []),
    ],
)
def test_the_hooks_choose_their_files(path: str, ids: list[str]) -> None:
    assert [hook["id"] for hook in HOOKS if re.search(hook["files"], path)] == ids


def test_the_container_copies_what_the_package_is_built_from() -> None:
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", CONTAINER, re.M) for name in line.split()]
    assert {"pyproject.toml", "src", PROJECT["readme"], *PROJECT["license-files"]} <= set(copied)
    assert all((ROOT / name).exists() for name in copied)
    assert {f"!{name}" for name in copied} <= set((ROOT / ".containerignore").read_text().splitlines())
    (command,) = re.findall(r'^CMD \["(\w+)"\]', CONTAINER, re.M)
    assert command in COMMANDS


def test_the_recipe_is_the_project() -> None:
    assert RECIPE["context"]["version"] == inferometer.__version__
    run: list[Any] = RECIPE["requirements"]["run"]
    assert [re.sub(r"(?<=\w)(?=[<>=])", " ", row) for row in PROJECT["dependencies"]] == run[1:]
    assert run[0] == f"python {PROJECT['requires-python']}"
    entries = dict(row.split(" = ") for row in RECIPE["build"]["python"]["entry_points"])
    assert entries == PROJECT["scripts"]


def test_nothing_is_installed_from_an_index_that_does_not_have_it():
    for path in (
        *sorted((ROOT / "docs").rglob("*.y*ml")),
        ROOT / "action.yml",
        ROOT / "packaging/Containerfile",
    ):
        installs = re.findall(r"pip install (.*)", path.read_text())
        assert not [line for line in installs if re.search(r"(?<![./\w-])inferometer(?![\w/-])", line)], path


def test_the_page_about_coordinated_omission_has_it_as_a_heading():
    assert "\n## Coordinated omission\n" in (ROOT / "docs/measurement.md").read_text()
