"""What a load is asked to be: words and options, as those of one measurement."""

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
    """What was given, with the words that stand alone as the address and the model."""
    found = dict(given)
    words = list(found.pop(WORDS, ()))
    if words and "url" not in found:
        addresses = addresses_of(words) or [word for word in words if "@" in word]
        if not addresses and len(words) == 1:
            raise UsageError(
                f"'{words[0]}' is no address", remedy=f"write the address first: localhost:8000 {words[0]}"
            )
        found["url"] = (addresses or words)[0]
        words.remove(found["url"])
    _refuse_numbers(words, found)
    for word in words:
        if _is_surely_address(word):
            raise UsageError(f"Two addresses are given: {found['url']} and {word}", remedy="give one")
        if found.setdefault("model", word) != word:
            raise UsageError(f"Two models are given: {found['model']} and {word}", remedy="give one")
    return found


def _refuse_numbers(words: Sequence[str], found: Mapping[str, Any]) -> None:
    """Numbers beside the model are values of an option, written without commas or without their option."""
    numbers = [word for word in words if re.fullmatch(r"[0-9][0-9.]*,?", word)]
    if not numbers or (len(numbers) == len(words) == 1 and "model" not in found):
        return
    levels = {"concurrency": "-c", "request_rate": "-r"}
    given = next((name for name in levels if name in found), None)
    remedy = "write the option before its number, such as -c 8, -r 100 or -d 10s"
    if given is not None:
        listed = ",".join(
            (plain_number(found[given].start).replace(",", ""), *(word.rstrip(",") for word in numbers))
        )
        remedy = f"several levels are written with commas: {levels[given]} {listed}"
    raise UsageError(f"The argument '{numbers[0]}' belongs to no option", remedy=remedy)


def addresses_of(words: Sequence[str], *, is_known: bool = False) -> list[str]:
    """Those of the words that stand alone which are meant as addresses: a name with a dot in it is one as long as no
    other word, and no option (`is_known`), says where the server is."""
    sure = [word for word in words if "@" not in word and _is_surely_address(word)]
    if sure or is_known or any("@" in word for word in words):
        return sure
    return [word for word in words if is_address(word)]


def is_address(word: str) -> bool:
    """Whether a word that stands alone can be meant as one."""
    return word == "localhost" or any(mark in word for mark in ":/.")


def _is_surely_address(word: str) -> bool:
    """Models have neither schemes nor ports in their names, but may be called org/llama-3.1:8b."""
    return word == "localhost" or re.fullmatch(r"\w+://.*|([^/:]*|\[.*\]):\d+([/?].*)?", word) is not None


def measure_options(given: Mapping[str, Any], *, duration_s: float = DURATION_S) -> Options:
    """What was given by field, with the defaults of our own commands: a level ends when its figures are precise, at
    the latest after `duration_s`. Where no kind is asked for, the address is asked what it is."""
    from secrets import randbits

    from inferometer.measure.checks import STABILITY_OPTIONS, make

    found = with_words(given)
    if "grpc_method" in found:
        found.setdefault("service_kind", "dynamic_grpc")
    if "url" in found:
        found.setdefault("service_kind", AUTO)
    _find_model(found)
    if "headers" in found:  # HTTP/2 forbids the blanks around a value, which the classic tool sends over gRPC
        found["headers"] = tuple((name, value.strip(" ")) for name, value in found["headers"])
    defaults: dict[str, Any] = {
        "request_timeout_s": REQUEST_TIMEOUT_S,
        "sequence_ids": (randbits(62) + 1, None),  # two runs at once never share an id
    }
    if STABILITY_OPTIONS.isdisjoint(found):
        defaults["duration_s"] = duration_s
    return make(found, defaults=defaults)


def _find_model(found: dict[str, Any]) -> None:
    """With the kind of the server known, the model must be, too; it may stand in the address."""
    from inferometer.measure.address import model_in
    from inferometer.services.kind import KINDS

    kind = found.get("service_kind")
    if found.get("model") or (kind is not None and (kind == AUTO or not KINDS[kind].needs_model)):
        return
    if kind is None:
        raise UsageError("No server and no model are given", remedy="write them: localhost:8000 MODEL")
    found["model"] = model_in(found.get("url"), kind)
    if not found["model"]:
        raise UsageError(
            f"No model is named, and --service-kind {kind} needs one",
            remedy="name it with -m, or leave out the kind: then the address is asked what it has",
        )


def asked_load(given: dict[str, Any]) -> "tuple[Options, tuple[WeightedModel, ...]]":
    """The options of the load, and the models, of which there may be several."""
    from inferometer.measure.mix import weighted

    if given.pop(f"{OWN}schema", None):
        raise UsageError("--schema sends nothing", remedy="leave it out")
    own = own_options(given, MeasureOptions)
    models = weighted(own.models)
    if models:
        given["model"] = models[0].model  # another one among the words is told from it
    return measure_options(given), models
