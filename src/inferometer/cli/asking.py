"""Options of a measurement from the words and options of a command line."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.units import plain_number
from inferometer.options.command_line import OWN, WORDS, own_options
from inferometer.options.measuring import MeasureOptions
from inferometer.options.options import AUTO, DURATION_S, REQUEST_TIMEOUT_S, Options

if TYPE_CHECKING:
    from inferometer.measure.mix import WeightedModel


def with_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """Assign positional words to the address and the model."""
    found = dict(given)
    words = list(found.pop(WORDS, ()))
    if words and "url" not in found:
        addresses = addresses_of(words) or [word for word in words if "@" in word]
        if not addresses and len(words) == 1:
            raise UsageError(
                f"'{words[0]}' is not an address",
                remedy=f"write the address first: localhost:8000 {words[0]}",
            )
        found["url"] = (addresses or words)[0]
        words.remove(found["url"])
    _refuse_numbers(words, found)
    for word in words:
        if _is_surely_address(word):
            raise UsageError(f"Two addresses are given: {found['url']} and {word}", remedy="give only one")
        if found.setdefault("model", word) != word:
            raise UsageError(f"Two models are given: {found['model']} and {word}", remedy="give only one")
    return found


def _refuse_numbers(words: Sequence[str], found: Mapping[str, Any]) -> None:
    """Raise for stray numbers: values written without commas or without their option."""
    numbers = [word for word in words if re.fullmatch(r"[0-9][0-9.]*,?", word)]
    if not numbers or (len(numbers) == len(words) == 1 and "model" not in found):
        return
    levels = {"concurrency": "-c", "request_rate": "-r"}
    given = next((name for name in levels if name in found), None)
    remedy = "write the option before the number, such as -c 8, -r 100 or -d 10s"
    if given is not None:
        listed = ",".join(
            (plain_number(found[given].start).replace(",", ""), *(word.rstrip(",") for word in numbers))
        )
        remedy = f"separate levels with commas: {levels[given]} {listed}"
    raise UsageError(f"Unexpected argument '{numbers[0]}'", remedy=remedy)


def addresses_of(words: Sequence[str], *, is_known: bool = False) -> list[str]:
    """Return the positional words that are addresses. A name with a dot counts only if no other word and no option
    (`is_known`) gives the address."""
    sure = [word for word in words if "@" not in word and _is_surely_address(word)]
    if sure or is_known or any("@" in word for word in words):
        return sure
    return [word for word in words if is_address(word)]


def is_address(word: str) -> bool:
    """Whether a positional word may be an address."""
    return word == "localhost" or any(mark in word for mark in ":/.")


def _is_surely_address(word: str) -> bool:
    """Whether a word has a scheme or a port, which model names lack; they may look like org/llama-3.1:8b."""
    return word == "localhost" or re.fullmatch(r"\w+://.*|([^/:]*|\[.*\]):\d+([/?].*)?", word) is not None


def measure_options(given: Mapping[str, Any], *, duration_s: float = DURATION_S) -> Options:
    """Make options with the defaults of our own commands: a level ends when its figures are precise, at the latest
    after `duration_s`, and the kind of server is detected unless given."""
    from secrets import randbits

    from inferometer.measure.checks import STABILITY_OPTIONS, make

    found = with_words(given)
    if "grpc_method" in found:
        found.setdefault("service_kind", "dynamic_grpc")
    if "url" in found:
        found.setdefault("service_kind", AUTO)
    _find_model(found)
    if "headers" in found:  # HTTP/2 forbids spaces around a value; the classic tool sends them over gRPC
        found["headers"] = tuple((name, value.strip(" ")) for name, value in found["headers"])
    defaults: dict[str, Any] = {
        "request_timeout_s": REQUEST_TIMEOUT_S,
        "sequence_ids": (randbits(62) + 1, None),  # concurrent runs never share an id
    }
    if STABILITY_OPTIONS.isdisjoint(found):
        defaults["duration_s"] = duration_s
    return make(found, defaults=defaults)


def _find_model(found: dict[str, Any]) -> None:
    """Find the model in the address if it is not given; an explicit kind of server requires a model."""
    from inferometer.measure.address import model_in
    from inferometer.services.kind import KINDS

    kind = found.get("service_kind")
    if found.get("model") or (kind is not None and (kind == AUTO or not KINDS[kind].needs_model)):
        return
    if kind is None:
        raise UsageError("Neither a server nor a model is given", remedy="write both: localhost:8000 MODEL")
    found["model"] = model_in(found.get("url"), kind)
    if not found["model"]:
        raise UsageError(
            f"--service-kind {kind} requires a model, but none is given",
            remedy="give it with -m, or leave out the kind to detect the server and its models",
        )


def asked_load(given: dict[str, Any]) -> "tuple[Options, tuple[WeightedModel, ...]]":
    """Return the options of the load and its models."""
    from inferometer.measure.mix import weighted

    if given.pop(f"{OWN}schema", None):
        raise UsageError("--schema sends nothing", remedy="leave it out")
    own = own_options(given, MeasureOptions)
    models = weighted(own.models)
    if models:
        given["model"] = models[0].model  # so that another model among the words is detected
    return measure_options(given), models
