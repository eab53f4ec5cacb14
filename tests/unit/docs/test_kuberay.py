"""The manifests for KubeRay: what its resource definitions allow, and a command that this version understands."""

import copy
import json
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from inferometer.options.command_line import Request, read

FOLDER = Path(__file__).parents[3] / "docs" / "kuberay"
SCHEMA = json.loads((Path(__file__).parent / "kuberay.json").read_text())
NAMES = ("raycluster", "rayjob")


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def cluster(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["spec"]
    return spec.get("rayClusterSpec", spec)


def problems(found: dict[str, Any]) -> list[str]:
    schema = SCHEMA | {"$ref": f"#/$defs/{found['kind']}"}
    jsonschema.Draft202012Validator.check_schema(schema)
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(found)]


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_is_what_the_resource_definition_allows(name: str) -> None:
    assert problems(manifest(name)) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec.update(workerGroups=[]), "'workerGroups' was unexpected"),
        (lambda spec: spec.pop("headGroupSpec"), "'headGroupSpec' is a required property"),
        (lambda spec: spec["workerGroupSpecs"][0].update(replicas="4"), "'4' is not of type 'integer'"),
        (
            lambda spec: spec["workerGroupSpecs"][0]["rayStartParams"].update({"num-cpus": 8}),
            "8 is not of type",
        ),
        (
            lambda spec: spec["headGroupSpec"]["template"]["spec"]["containers"][0].update(imagePull="x"),
            "'imagePull' was unexpected",
        ),
        (
            lambda spec: spec["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"][
                "limits"
            ].update(memory="4 GB"),
            "is not valid under any",
        ),
    ],
    ids=["field", "missing", "number", "text", "container", "amount"],
)
def test_what_is_wrong_would_be_noticed(name: str, change: Any, said: str) -> None:
    found = copy.deepcopy(manifest(name))
    change(cluster(found))
    assert any(said in problem for problem in problems(found)), problems(found)


def test_the_job_is_a_command_that_fits_its_cluster() -> None:
    found = manifest("rayjob")
    program, name, *words = shlex.split(found["spec"]["entrypoint"])
    request = read(words, import_module(f"inferometer.cli.{name}").COMMAND)
    assert isinstance(request, Request)
    given = request.load
    (group,) = cluster(found)["workerGroupSpecs"]
    cores = int(group["rayStartParams"]["num-cpus"])
    (container,) = group["template"]["spec"]["containers"]
    assert (program, given["ray"], given["clients"]) == ("inferometer", "auto", group["replicas"])
    assert given["workers"] == cores
    assert given["client_resources"] == {"CPU": float(cores)}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"]["cpu"] == str(cores)


def test_both_have_the_same_machines() -> None:
    assert cluster(manifest("raycluster")) == cluster(manifest("rayjob"))


def test_the_command_in_the_head_pod_is_understood() -> None:
    text = (FOLDER / "raycluster.yaml").read_text()
    (line,) = [line for line in text.splitlines() if "kubectl exec" in line]
    _, name, *words = shlex.split(line.partition("-- ")[2])
    request = read(words, import_module(f"inferometer.cli.{name}").COMMAND)
    assert isinstance(request, Request)
    given = request.load
    assert given["clients"] == 4
