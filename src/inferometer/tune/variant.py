"""A model with some fields of its configuration changed, under a permanent name."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from inferometer.base.frozen import frozen
from inferometer.base.text import is_digits
from inferometer.tune import model_config
from inferometer.tune.knobs import knobs_of
from inferometer.tune.model_config import Fields


@frozen
class ModelVariant:
    """A changed model: `overrides` holds the changes, `config` the whole configuration; members are variants too."""

    model: str
    name: str
    overrides: Fields
    config: Fields
    cpu_only: bool = False
    composing: tuple["ModelVariant", ...] = ()

    @property
    def key(self) -> str:
        """Equal for equal contents including members, regardless of names."""
        text = "\n".join((self.model, model_config.key(self.config), *(part.key for part in self.composing)))
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def is_default(self) -> bool:
        return self.name == default_name(self.model)

    @property
    def is_ensemble(self) -> bool:
        return "ensemble_scheduling" in self.config and bool(self.composing)

    @property
    def working(self) -> tuple["ModelVariant", ...]:
        """The variants that have instances: the members of an ensemble, otherwise the model itself."""
        return self.composing if self.is_ensemble else (self,)

    @property
    def with_members(self) -> tuple["ModelVariant", ...]:
        """All variants in loading order: members before their caller."""
        return (*(part for member in self.composing for part in member.with_members), self)

    @property
    def text(self) -> str:
        """The `config.pbtxt` with which it replaces its model."""
        return model_config.to_text({**self.config, "name": self.model})

    @property
    def title(self) -> str:
        """The name with the names of the members, as shown in tables."""
        parts = ", ".join(part.name for part in self.composing)
        return f"{self.name}: {parts}" if parts else self.name


def default_name(model: str) -> str:
    return f"{model}_config_default"


@dataclass(slots=True)
class VariantNames:
    """Names configurations `<model>_config_<n>` in order of creation; equal contents get the same name."""

    known: dict[str, ModelVariant] = field(default_factory=dict)  # by name
    last: dict[str, int] = field(default_factory=dict)  # number by model
    _by_content: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, variants: Iterable[ModelVariant]) -> "VariantNames":
        """Start with names that were given before."""
        names = cls()
        for variant in variants:
            names.add(variant)
        return names

    def add(self, variant: ModelVariant) -> None:
        self.known[variant.name] = variant
        suffix = variant.name.rpartition("_config_")[2]
        if is_digits(suffix):
            self.last[variant.model] = max(self.last.get(variant.model, -1), int(suffix))
            self._by_content.setdefault(_content(variant), variant.name)

    def variant(
        self,
        model: str,
        base: Fields,
        overrides: Fields,
        *,
        cpu_only: bool = False,
        composing: tuple[ModelVariant, ...] = (),
    ) -> ModelVariant:
        """Return the variant with these changes. Without changes it is the default, even if a numbered one equals it;
        an ensemble is the default if all its members are, and its batch size follows from theirs."""
        config = normal(model_config.merge(base, overrides))
        is_derived = "ensemble_scheduling" in base or knobs_of(base) is not None
        is_same = not overrides or (is_derived and config == normal(base))
        is_default = is_same and all(part.is_default for part in composing)
        made = ModelVariant(model, default_name(model), overrides, config, cpu_only, composing)
        if is_default:
            known = self.known.get(made.name)
            if (
                known is None or known.key != made.key
            ):  # the model's own configuration was edited in the meantime
                self.known[made.name] = made
            return self.known[made.name]
        name = self._by_content.get(_content(made))
        if name is not None:
            return self.known[name]
        made = replace(made, name=f"{model}_config_{self.last.get(model, -1) + 1}")
        self.add(made)
        return made


def normal(config: Fields) -> Fields:
    """Return a configuration in canonical form."""
    return config if knobs_of(config) is not None else model_config.normal(config)


def _content(variant: ModelVariant) -> str:
    members = [(part.name, part.key) for part in variant.composing]
    return json.dumps([variant.model, model_config.key(variant.config), members])


def changes(overrides: Mapping[str, object]) -> tuple[str, ...]:
    """Return one line per changed field."""
    return tuple(
        f"Enabling {name}" if value == {} else f"Setting {name} to {value}"
        for name, value in overrides.items()
    )
