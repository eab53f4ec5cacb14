"""Several models in one load: their requests share connections and alternate by weight."""

from collections.abc import Sequence
from dataclasses import replace

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import plain_number
from inferometer.load.mixture import mixture
from inferometer.measure.checks import changed
from inferometer.measure.instrument import ClassSettings
from inferometer.measure.prepare import Habits, Setup, prepare
from inferometer.options.names import option_name
from inferometer.options.options import Options
from inferometer.options.words import split_addresses
from inferometer.services.traffic import Traffic, Validation
from inferometer.stats.result import Result

OWN_ORDER = ("fixed_schedule", "replay", "periodic_concurrency", "session_concurrency")
"""Loads that determine the order of requests themselves."""
_SCENARIO = "define a class for each model in a scenario: inferometer measure --scenario FILE"


@frozen
class WeightedModel:
    """A model and its weight in the mix."""

    model: str
    weight: float = 1.0


def weighted(words: Sequence[str]) -> tuple[WeightedModel, ...]:
    """Parse models written as NAME:WEIGHT, or NAME with weight 1. A single model has no weight, since names may
    contain a colon."""
    if len(words) < 2:
        return tuple(WeightedModel(word) for word in words)
    found = tuple(map(_weighted, words))
    names = [row.model for row in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"the model '{twice}' is given twice", remedy="list it once, with the sum of its weights"
        )
    return found


def _weighted(word: str) -> WeightedModel:
    name, colon, written = word.rpartition(":")
    if not colon:
        return WeightedModel(word)
    try:
        weight = float(written)
    except ValueError:  # a name may contain a colon
        return WeightedModel(word)
    if not name or not 0 < weight < 1e9:
        raise UsageError(
            f"'{word}' has an invalid weight '{written}'",
            remedy="write it like detector:3, with a weight above 0",
        )
    return WeightedModel(name, weight)


def prepare_mix(options: Options, models: Sequence[WeightedModel], *, command: str, habits: Habits) -> Setup:
    """Prepare all models like `prepare`, with their requests in one list."""
    for name in OWN_ORDER:
        if name in options.given:
            raise UsageError(
                f"{option_name(name)} determines the order of requests, which conflicts with model weights",
                remedy=_SCENARIO,
            )
    if len(split_addresses(options.url or "")) > 1:
        raise UsageError("several models cannot be measured at several addresses", remedy=_SCENARIO)
    for name in ("shared_memory", "profile_export"):
        if name in options.given:
            raise UsageError(
                f"{option_name(name)} supports a single model, but {len(models)} are given",
                remedy="remove it",
            )
    setups = [prepare(changed(options, model=row.model), command=command, habits=habits) for row in models]
    return mixed(setups, models)


def mixed(setups: Sequence[Setup], models: Sequence[WeightedModel]) -> Setup:
    """Merge the setups into one; reject models whose requests cannot share connections."""
    first, limit = setups[0], _reply_limit(setups)
    for setup in setups:
        if setup.sequences is not None:
            raise UsageError(
                f"'{setup.model.name}' uses sequences, which cannot be mixed with other models",
                remedy=_SCENARIO,
            )
        if setup.traffic.wiring._replace(reply_limit=limit) != first.traffic.wiring._replace(
            reply_limit=limit
        ):
            raise UsageError(
                f"requests for '{setup.model.name}' cannot share connections with those for '{first.model.name}'",
                remedy=_SCENARIO,
            )
    total = sum(row.weight for row in models)
    order = mixture([row.weight for row in models], [len(setup.traffic.requests) for setup in setups])
    classes = tuple(
        ClassSettings(
            name=setup.model.name,
            url=str(setup.result.server["url"]),
            level=replace(setup.level_settings, asked_tokens=_asked(setup, number, order)),
            weight=row.weight,
            share=row.weight / total,
            has_own_counters=has_own_counters(setup, setups),
        )
        for number, (setup, row) in enumerate(zip(setups, models, strict=True))
    )
    level_settings = replace(
        first.level_settings,
        has_tokens=all(setup.level_settings.has_tokens for setup in setups),
        classes=classes,
        class_of_step=tuple(number for number, _ in order),
        asked_tokens=(),
    )
    return replace(
        first,
        traffic=_traffic(setups, order),
        level_settings=level_settings,
        result=mixed_result(setups, [f"{row.model}:{plain_number(row.weight)}" for row in models]),
        warnings=tuple(dict.fromkeys(warning for setup in setups for warning in setup.warnings)),
        parts=tuple(setups),
        prompts=None,
    )


def mixed_result(setups: Sequence[Setup], names: Sequence[str]) -> Result:
    """Merge the information about all models known before the load."""
    first = setups[0].result
    models = [dict(setup.result.model) for setup in setups]
    urls = list(dict.fromkeys(str(setup.result.server["url"]) for setup in setups))
    findings = dict.fromkeys(finding for setup in setups for finding in setup.findings)
    title = " + ".join(names)
    return replace(
        first,
        asked={**first.asked, "model": title},
        model={"name": title, "mixed": models},
        server={**first.server, "url": ", ".join(urls), "findings": list(findings)},
        remarks=tuple(dict.fromkeys(remark for setup in setups for remark in setup.result.remarks)),
    )


def has_own_counters(setup: Setup, setups: Sequence[Setup]) -> bool:
    """Return whether this class alone calls its models: the server counts the requests of all classes together."""
    names = {model.name for model in setup.model.family()}
    return not any(
        other is not setup
        and other.result.server["url"] == setup.result.server["url"]
        and not names.isdisjoint(model.name for model in other.model.family())
        for other in setups
    )


def _asked(setup: Setup, number: int, order: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    asked = setup.traffic.asked_tokens
    return tuple(asked[step] if owner == number else 0 for owner, step in order) if asked else ()


def _reply_limit(setups: Sequence[Setup]) -> int:
    """Return the largest reply limit of any model: replies share connections."""
    return max(setup.traffic.wiring.reply_limit for setup in setups)


def _traffic(setups: Sequence[Setup], order: Sequence[tuple[int, int]]) -> Traffic:
    traffics = [setup.traffic for setup in setups]
    checks = [traffic.validation for traffic in traffics if traffic.validation is not None]
    validation = None
    if checks:
        expected = tuple(
            () if (found := traffics[number].validation) is None else found.expected[step]
            for number, step in order
        )
        validation = Validation(expected, checks[0].tolerance, checks[0].relative, checks[0].share)
    return Traffic(
        wiring=traffics[0].wiring._replace(reply_limit=_reply_limit(setups)),
        requests=tuple(traffics[number].requests[step] for number, step in order),
        validation=validation,
        findings=tuple(dict.fromkeys(finding for traffic in traffics for finding in traffic.findings)),
    )
