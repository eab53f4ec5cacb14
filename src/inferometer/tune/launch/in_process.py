"""No server at all: each model of a trial is loaded by the worker that puts it under load."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from inferometer.base.errors import UsageError
from inferometer.server.in_process import Host, ModelFolder, installation
from inferometer.server.wheel import find_wheel
from inferometer.tune import model_config
from inferometer.tune.launch.site import Addresses
from inferometer.tune.model_config import Fields
from inferometer.tune.settings import LaunchSettings
from inferometer.tune.variant import Variant

INSTALL_OPTION = "--triton-install-path"


class InProcessSite:
    """Says what each worker is to load. A variant stands in for the model under the model's own name.

    A worker gets a repository of its own: links to the model's files, and the configuration of the variant.
    """

    pid: int | None = None  # there is a process for each model
    addresses = Addresses("", "", "")
    is_special = False

    def __init__(self, launch: LaunchSettings) -> None:
        self._launch = launch
        self._directory = installation(launch.install_path, INSTALL_OPTION)
        if self._directory is None:
            find_wheel()
        self._variants: Mapping[str, Variant] = {}
        self._hosts: dict[str, Host] = {}  # the last one of each model

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Workers end with the meter, which started them."""

    def is_running(self) -> bool:
        """No worker that came up has died."""
        return not any(host.has_died() for host in self._hosts.values())

    def revive(self) -> bool:
        """The next trial starts workers anew."""
        if self.is_running():
            return False
        self._variants = {}
        self._hosts.clear()
        return True

    def base_config(self, model: str) -> Fields:
        raise UsageError(
            f"the model '{model}' has no config.pbtxt with its inputs and outputs, and the launch mode c_api has no "
            "server to ask for them",
            remedy="write them into its config.pbtxt, or use --triton-launch-mode local",
        )

    def others(self, models: Sequence[str]) -> tuple[str, ...]:
        return ()

    def apply(self, variants: Sequence[Variant]) -> bool:
        wanted = {variant.model: variant for variant in variants}
        if {model: variant.key for model, variant in wanted.items()} == {
            model: variant.key for model, variant in self._variants.items()
        }:
            return False
        self._variants = wanted
        self._hosts.clear()
        return True

    def host(self, model: str) -> Host:
        variant = self._variants[model]
        loaded = (variant, *variant.composing)
        configs = self._with_called({part.model: part.config for part in loaded})
        self._hosts[model] = host = Host(
            models=tuple(part.model for part in loaded),
            directory=self._directory,
            folders=tuple(self._folder(name, config) for name, config in configs.items()),
            environment=self._launch.environment,
            timeout_s=self._launch.timeout_s,
        )
        return host

    def _with_called(self, configs: dict[str, Fields]) -> dict[str, Fields]:
        """Also of what ensembles among them call, and what that calls."""
        waiting = list(configs)
        while waiting:
            for name in model_config.members(configs[waiting.pop()]):
                if name not in configs:
                    configs[name] = self._own_config(name)
                    waiting.append(name)
        return configs

    def _own_config(self, model: str) -> Fields:
        path = self._source(model) / "config.pbtxt"
        return model_config.read_file(path) if path.exists() else self.base_config(model)

    def _folder(self, model: str, config: Fields) -> ModelFolder:
        return ModelFolder(model, self._source(model), model_config.to_text({**config, "name": model}))

    def _source(self, model: str) -> Path:
        found = model_config.find_model(self._launch.repositories, model)
        if found is None:
            raise UsageError(
                f"the model '{model}' is not in the model repository", remedy="check --model-repository"
            )
        return found
