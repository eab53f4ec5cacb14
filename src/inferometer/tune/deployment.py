"""Where the variants of a trial are loaded: in a server, or in the workers."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from inferometer.base.deadline import End, ending
from inferometer.base.errors import PeerError, UsageError
from inferometer.options.names import option_name
from inferometer.server.in_process import Host, ModelFolder, installation
from inferometer.server.wheel import find_wheel
from inferometer.services.discovery import ModelControl, are_fixed, ready_models
from inferometer.services.originals import Originals, Say
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields
from inferometer.tune.servers import ModelServer, control_endpoint, make_server, repository
from inferometer.tune.settings import IN_PROCESS, Addresses, LaunchSettings
from inferometer.tune.variant import ModelVariant


def open_deployment(launch: LaunchSettings, say: Say = lambda text: None) -> "Deployment":
    """Create a deployment, to be used as a context manager; `say` gets messages about a server that we did not
    start."""
    if launch.mode == IN_PROCESS:
        return InProcessDeployment(launch)
    originals = None
    if launch.mode == "remote" and launch.may_load:
        control = repository(launch.addresses, launch.control)
        originals = Originals(control, str(control_endpoint(launch.addresses, launch.control)), say)
    return ServerDeployment(make_server(launch), launch, originals, say)


class Deployment(Protocol):
    """Loads the variants of a trial. As a context manager it stops everything it started.

    The defaults here are those of a deployment without a server.
    """

    is_special: bool = False  # started with the server flags of one model
    most_failures: int = 2  # first trials that fail before the search gives up
    warms_by_load: bool = False  # each load is applied until the server is warm for it
    ready_s: float = (
        0.0  # from the start of the server until it was ready; 0 if it got other values while running
    )

    @property
    def addresses(self) -> Addresses:
        return Addresses("", "", "")

    @property
    def pid(self) -> int | None:
        """Process id of the server, if it runs on this machine."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; may be called twice."""
        return

    def is_running(self) -> bool: ...

    def end_words(self) -> str:
        """Describe how the server ended."""
        return "ended"

    def revive(self) -> bool:
        """Restart all processes that died; return whether there were any."""

    def base_config(self, model: str) -> Fields:
        """Return the server's view of the model's own configuration."""

    def others(self, models: Sequence[str]) -> tuple[str, ...]:
        """Return loaded models other than these and those they call."""
        return ()

    def apply(self, variants: Sequence[ModelVariant]) -> bool:
        """Load exactly these variants; return whether anything changed."""

    def restarts_for(self, variants: Sequence[ModelVariant]) -> bool:
        """Return whether `apply` would stop the server that is running."""
        return False

    def host(self, model: str) -> Host | None:
        """Return how a worker loads the model itself; None if a server does."""
        return None


class ServerDeployment(Deployment):
    """Replaces variants under the model's own name; restarts the server only if it died.

    Models that were loaded before are restored at the end, with their configuration.
    """

    def __init__(
        self,
        server: ModelServer,
        launch: LaunchSettings,
        originals: Originals | None = None,
        say: Say = lambda text: None,
    ) -> None:
        self._server = server
        self._control = launch.control
        self._is_ours = launch.mode != "remote"
        self._may_load = launch.may_load
        self._originals = originals
        self._say = say
        self._loaded: dict[str, str] = {}  # model -> key of the loaded variant
        self._is_open = False

    # --- life cycle

    def __enter__(self) -> Self:
        self._is_open = True
        self._server.start()
        if self._originals is not None:
            self._originals.open()
        return self

    def close(self) -> None:
        """Restore previously loaded models, and stop our server."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._originals is not None:
                self._originals.close()
        except PeerError as error:  # the server may be gone; the result of the search remains valid
            self._say(f"The server could not be restored to its previous state: {error}")
        finally:
            self._server.stop()

    @property
    def addresses(self) -> Addresses:
        return self._server.addresses

    @property
    def pid(self) -> int | None:
        return self._server.pid

    @property
    def _repository(self) -> ModelControl:
        return repository(self.addresses, self._control)

    def is_running(self) -> bool:
        return self._server.is_running()

    def end_words(self) -> str:
        return self._server.end_words()

    def revive(self) -> bool:
        if not self._is_ours or self._server.is_running():
            return False
        self._server.stop()
        self._loaded.clear()
        self._server.start()
        return True

    # --- models

    def base_config(self, model: str) -> Fields:
        with self._while_it_runs():
            return self._base_config(model)

    def _base_config(self, model: str) -> Fields:
        known = self._repository
        names = {row.name for row in known.index()}
        if model not in names:
            raise UsageError(
                f"the server has no model '{model}'",
                remedy=f"its models are {', '.join(sorted(names)) or 'none'}",
            )
        self._note([model])
        if model not in ready_models(known):
            _load(known, model, None)
        found = _loaded_config(known, model)
        self._note(model_config.members(found))
        self._loaded.pop(model, None)
        return _without_completed(found)

    def others(self, models: Sequence[str]) -> tuple[str, ...]:
        if self._is_ours:
            return ()
        known = self._repository
        ready = ready_models(known)
        called = {
            name
            for model in models
            if model in ready
            for name in model_config.members(_loaded_config(known, model))
        }
        return tuple(sorted(ready - called - set(models)))

    def apply(self, variants: Sequence[ModelVariant]) -> bool:
        """Load exactly these variants, members before their callers; return whether anything had to be loaded."""
        wanted = [part for variant in variants for part in variant.with_members]
        stale = [variant for variant in wanted if self._loaded.get(variant.model) != variant.key]
        if not stale:
            return False
        known = self._repository
        if not self._may_load:
            for variant in variants:
                if variant.model not in ready_models(known):
                    raise PeerError(f"the model '{variant.model}' is not loaded, and loading is disabled")
            return False
        self._note([variant.model for variant in wanted])
        if any(variant.composing for variant in variants):
            # An ensemble keeps the members it was loaded with, so everything is loaded again if one of them changes.
            stale = wanted
        with self._while_it_runs():
            for variant in stale:
                self._loaded.pop(variant.model, None)
                _load(known, variant.model, {**variant.config, "name": variant.model})
                self._loaded[variant.model] = variant.key
        return True

    def _while_it_runs(self) -> contextlib.AbstractContextManager[None]:
        """Abort calls in this context when our server ends, because its child processes may keep connections open."""
        if not self._is_ours:
            return contextlib.nullcontext()
        return ending(End("the server ended", check=lambda: not self._server.is_running()))

    def _note(self, models: Sequence[str]) -> None:
        """Record the previous state of models on a server that is not ours."""
        if self._originals is not None:
            self._originals.note(models)


def _load(known: ModelControl, model: str, config: Fields | None) -> None:
    try:
        known.load_model(model, config)
    except PeerError as error:
        if are_fixed(error):
            raise UsageError(
                f"the server does not allow changing its models: {error.message}",
                remedy="start it with --model-control-mode explicit",
            ) from error
        if "failed to poll" in error.message:
            raise PeerError(
                f"the server found nothing to load for '{model}': {error.message}",
                remedy="its directory needs a config.pbtxt and a version directory such as 1 with the model's files",
            ) from error
        raise PeerError(_without_frames(error.message), remedy=error.remedy) from error


def _without_frames(message: str) -> str:
    """Reduce the traceback of a Python model to its first frame."""
    reason, is_found, frames = message.partition("\nAt:\n")
    return f"{reason.strip()} at {frames.strip().splitlines()[0]}" if is_found and frames.strip() else message


def _loaded_config(known: ModelControl, model: str) -> Fields:
    """Return the configuration of a loaded model in a form that can be loaded again: servers also report empty fields,
    and reject some of them. Fields of newer servers that our messages lack are left out."""
    names = model_config.message().DESCRIPTOR.fields_by_name
    fields = known.config(model)
    return model_config.normal({name: value for name, value in fields.items() if name in names})


def _without_completed(fields: Fields) -> Fields:
    """Remove the preferred batch sizes filled in by the server, which would apply to every variant."""
    batching = fields.get("dynamic_batching")
    if batching is None:
        return fields
    kept = {name: value for name, value in batching.items() if name != "preferred_batch_size"}
    return {**fields, "dynamic_batching": kept}


class InProcessDeployment(Deployment):
    """No server: each worker loads its variant under the model's own name.

    A worker gets its own repository: links to the model's files, and the configuration of the variant.
    """

    def __init__(self, launch: LaunchSettings) -> None:
        self._launch = launch
        self._directory = installation(launch.install_path, option_name("--triton-install-path"))
        if self._directory is None:
            find_wheel()
        self._variants: Mapping[str, ModelVariant] = {}
        self._hosts: dict[str, Host] = {}  # the last one of each model

    def is_running(self) -> bool:
        """Return whether all started workers are alive."""
        return not any(host.has_died() for host in self._hosts.values())

    def revive(self) -> bool:
        """Return whether a worker died; the next trial starts new ones."""
        if self.is_running():
            return False
        self._variants = {}
        self._hosts.clear()
        return True

    def base_config(self, model: str) -> Fields:
        raise UsageError(
            f"the model '{model}' has no config.pbtxt with its inputs and outputs, and launch mode c_api has no "
            "server to query for them",
            remedy=f"add them to its config.pbtxt, or use {option_name('--triton-launch-mode', 'local')}",
        )

    def apply(self, variants: Sequence[ModelVariant]) -> bool:
        if [variant.key for variant in variants] == [variant.key for variant in self._variants.values()]:
            return False
        self._variants = {variant.model: variant for variant in variants}
        self._hosts.clear()
        return True

    def host(self, model: str) -> Host:
        variant = self._variants[model]
        loaded = (variant, *variant.composing)
        configs = self._with_called({part.model: part.config for part in loaded})
        folders = tuple(
            ModelFolder(name, self._source(name), model_config.to_text({**config, "name": name}))
            for name, config in configs.items()
        )
        self._hosts[model] = host = Host(
            models=tuple(part.model for part in loaded),
            directory=self._directory,
            folders=folders,
            environment=self._launch.environment,
            timeout_s=self._launch.timeout_s,
        )
        return host

    def _with_called(self, configs: dict[str, Fields]) -> dict[str, Fields]:
        """Add the configurations of all models that ensembles among them call."""
        waiting = list(configs)
        while waiting:
            for name in model_config.members(configs[waiting.pop()]):
                if name not in configs:
                    path = self._source(name) / "config.pbtxt"
                    configs[name] = model_config.read_file(path) if path.exists() else self.base_config(name)
                    waiting.append(name)
        return configs

    def _source(self, model: str) -> Path:
        found = model_config.find_model(self._launch.repositories, model)
        if found is None:
            raise UsageError(
                f"the model '{model}' is not in the model repository",
                remedy=f"check {option_name('--model-repository')}",
            )
        return found
