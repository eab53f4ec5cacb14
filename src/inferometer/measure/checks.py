"""Validation of options: values and combinations that cannot work are rejected before any load starts.

Each value is checked when it is given: a word when it is parsed, a value from Python code in `changed`. Each
combination is checked when it is made. Rules for one service kind are in its row of `services.kind.KINDS`; a dialect
that is stricter about a kind passes its own.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.errors import Name, UsageError
from inferometer.base.reading import KEY, read_file
from inferometer.model.spec import ModelSpec
from inferometer.options.command_line import Target
from inferometer.options.groups import WINDOWS
from inferometer.options.lengths import parse_lengths
from inferometer.options.names import BY_FIELD, option_name, with_names
from inferometer.options.option import Given, Rule, is_async, is_grpc, names_data
from inferometer.options.options import (
    AUTO,
    DURATION_S,
    PARTS,
    REQUEST_TIMEOUT_S,
    Options,
    value_of,
)
from inferometer.options.values import Range
from inferometer.services.address import model_in
from inferometer.services.kind import KINDS

_WITHOUT_FIELD = frozenset(("old_start", "old_end", "old_sweep", "insecure", "mpi"))
LONGEST_KEY = 1 << 16  # bytes
LOAD_MODES = (
    "concurrency",
    "request_rate",
    "request_intervals",
    "periodic_concurrency",
    "fixed_schedule",
    "session_concurrency",
    "replay",
    "shape_load",
)
_RANGES = ("concurrency", "request_rate")
DUE = ("request_rate", "request_intervals", "fixed_schedule", "replay", "shape_load")
AGENDAS = ("fixed_schedule", "replay", "shape_load")  # they define the number of requests
STABILITY_OPTIONS = frozenset((*WINDOWS, "request_count"))
"""Fields of the classic stopping rule; giving one of them selects that rule."""


LEAST_WEIBULL = 0.1  # the mean of smaller shapes depends on gaps too rare to be drawn


def kind_of(given: Given) -> str:
    return str(given.get("service_kind", "triton"))


def _needs_model(kind: str) -> bool:
    return kind != AUTO and KINDS[kind].needs_model


def _is_without_grpc(given: Given) -> bool:
    """Return whether gRPC is ruled out; an address of unknown kind may still support it."""
    return not is_grpc(given) and kind_of(given) != AUTO


def _is_old(given: Given) -> bool:
    return any(field in given for field in ("old_start", "old_end", "old_sweep"))


def _is_open(given: Given) -> bool:
    """Return whether the requested range is unbounded."""
    if "old_sweep" in given and given.get("old_end", 0) == 0:
        return True
    return any(field in given and given[field].end == 0 for field in _RANGES)


def _runs_down(given: Given) -> bool:
    return any(field in given and (given[field].end or 1) < given[field].start for field in _RANGES)


def _has_pairs(given: Given) -> bool:
    asked = given.get("data.prompt_tokens")
    return asked is not None and parse_lengths(option_name("data.prompt_tokens"), asked).has_pairs


def _counts(given: Given) -> int:
    return int(given.get("request_count", 0))


def _latency_limit(given: Given) -> int:
    return int(given.get("latency_limit_ms", 0))


# --- rules shared by several fields


def _old_with(field: str) -> Rule:
    return Rule(
        lambda a: _is_old(a) and field in a, f"Cannot use deprecated options -t, -c and -d with {{{field}}}"
    )


def _no_count_with(field: str) -> Rule:
    return Rule(
        lambda a: _counts(a) > 0 and field in a,
        f"request-count not supported with {{{field}}}",
        "remove it: this load has a fixed length",
        ours=f"{{--requests}} is not supported with {{{field}}}",
    )


def _count_covers(field: str) -> Rule:
    return Rule(
        lambda a: field in a and 0 < _counts(a) < a[field].last,
        f"request-count can not be less than {field.replace('_', '-')}",
        "raise {--requests}, or lower the load",
        ours=f"{{--requests}} must not be below the highest value of {{{field}}}",
    )


def _needs_metrics(field: str) -> Rule:
    return Rule(
        lambda a: field in a and "collect_metrics" not in a,
        f"Must specify {{collect_metrics}} when using the {{{field}}} option.",
        ours=f"{{{field}}} requires {{collect_metrics}}",
    )


def _one_value_with_mpi(field: str) -> Rule:
    return Rule(
        lambda a: "mpi" in a and field in a and a[field].end not in (None, a[field].start),
        f"Cannot specify a {field.replace('_', ' ')} range in multi-model mode. Give a single value.",
    )


def _needs_ray(field: str) -> Rule:
    return Rule(
        lambda a: field in a and "ray" not in a,
        f"{{{field}}} requires clients on a Ray cluster",
        "give its address with {ray}, or {ray:local}",
    )


def _no_authorization_with(field: str) -> Rule:
    return Rule(
        lambda a: field in a and any(name.lower() == "authorization" for name, _ in a.get("headers", ())),
        f"{{{field}}} and an Authorization header are mutually exclusive. Give only one.",
        ours=f"{{{field}}} and an Authorization header are mutually exclusive",
    )


RULES = (
    Rule(
        lambda a: not a.get("model") and _needs_model(kind_of(a)),
        f"Failed to parse {Name('-m (model name)', 'model')}. The value must be specified.",
        "write its name after the address, or use {--model}",
        ours="no model is given",
    ),
    Rule(
        lambda a: sum(field in a for field in LOAD_MODES) > 1,
        "Cannot specify more then one inference load mode. Please choose only one of the following modes: "
        + ", ".join(f"{{{field}}}" for field in LOAD_MODES),
        ours="these options are mutually exclusive: " + ", ".join(f"{{{field}}}" for field in LOAD_MODES),
    ),
    Rule(
        lambda a: a.get("request_distribution") == "weibull" and a.get("burstiness", 1.0) < LEAST_WEIBULL,
        f"{{burstiness}} of Weibull gaps must be {LEAST_WEIBULL} or more: below, almost all requests arrive at once.",
        "raise it, or use {--arrivals:gamma}",
    ),
    *map(_old_with, (*_RANGES, "request_intervals")),
    Rule(
        lambda a: "streaming" in a and _is_without_grpc(a) and kind_of(a) not in ("triton_c_api", "openai"),
        "Streaming is only allowed with gRPC protocol and Triton C API.",
        "add {--grpc} and use the server's gRPC port",
        ours="{streaming} requires gRPC for this kind of server",
    ),
    Rule(
        lambda a: "connections" in a and _is_without_grpc(a),
        "{connections} applies only to gRPC: over HTTP each request in flight has its own connection; "
        "set their number with {-c}.",
    ),
    Rule(
        lambda a: "output_tokens" in a and _has_pairs(a),
        "{data.prompt_tokens} already sets output lengths and conflicts with {output_tokens}",
        "remove {output_tokens}",
    ),
    Rule(
        lambda a: "data.unique_prompts" in a and "data.repeat_prompts" in a,
        "{data.unique_prompts} and {data.repeat_prompts} are mutually exclusive",
        "remove one of them",
    ),
    Rule(
        lambda a: "streaming" in a and "synchronous" in a,
        "can not use streaming with synchronous API",
        ours="{streaming} and {synchronous} are mutually exclusive",
    ),
    Rule(
        lambda a: "asynchronous" in a and "synchronous" in a,
        "Cannot specify {--async} and {synchronous} simultaneously.",
        ours="{--async} and {synchronous} are mutually exclusive",
    ),
    Rule(
        lambda a: a.get("grpc_compression", "none") != "none" and _is_without_grpc(a),
        "Using compression algorithm is only allowed with gRPC protocol.",
        "add {--grpc} and use the server's gRPC port",
        ours="{grpc_compression} requires gRPC",
    ),
    Rule(
        lambda a: _is_open(a) and _latency_limit(a) == 0,
        "The end of the search range and the latency limit cannot both be 0. "
        "Give an end, or a limit with {--latency-threshold} (-l).",
    ),
    Rule(
        lambda a: "binary_search" in a and _latency_limit(a) == 0,
        "The {--latency-threshold} cannot be 0 for binary search mode.",
        "give it in milliseconds",
        ours="a binary search requires {--latency-threshold}",
    ),
    Rule(
        lambda a: "binary_search" in a and _is_open(a),
        "The end of the search range cannot be 0 for binary search mode.",
        "give an upper limit",
        ours="a binary search requires a range with an end",
    ),
    Rule(
        lambda a: "binary_search" in a and _runs_down(a),
        "The end of the search range cannot be less than start for binary search mode.",
        "give the lowest level first",
        ours="the range of a binary search must not end below its start",
    ),
    Rule(
        lambda a: "periodic_concurrency" in a and "streaming" not in a,
        "The {periodic_concurrency} option requires bi-directional gRPC streaming. "
        "Use {streaming} {protocol:grpc}.",
        ours="{periodic_concurrency} requires gRPC streams: use {streaming} and {protocol:grpc}",
    ),
    Rule(
        lambda a: "periodic_concurrency" in a and kind_of(a) not in ("triton", AUTO),
        "The {periodic_concurrency} option is only supported with {service_kind} triton.",
        "use {-c} instead",
    ),
    Rule(
        lambda a: "periodic_concurrency" in a and "profile_export" not in a,
        "Must provide {profile_export} when using the {periodic_concurrency} option.",
        "name a new file for it",
        ours="{periodic_concurrency} requires {profile_export}",
    ),
    Rule(
        lambda a: "request_parameters" in a and _is_without_grpc(a),
        "The {request_parameters} option is only supported by gRPC. Use {protocol:grpc}.",
        ours="{request_parameters} requires gRPC: use {protocol:grpc}",
    ),
    *map(_count_covers, _RANGES),
    *map(_no_count_with, (*AGENDAS, "periodic_concurrency")),
    Rule(
        lambda a: "fixed_schedule" in a and not names_data(a),
        "{fixed_schedule} takes its times from a data file. Give one with {data.sources}.",
    ),
    Rule(
        lambda a: "fixed_schedule" in a and a.get("batch", 1) != 1,
        "Batching is not supported with {fixed_schedule}: each step has a time of its own. Leave out {-b}.",
    ),
    Rule(
        lambda a: "speed" in a and "replay" not in a,
        "{speed} is for a trace. Give one with {replay}.",
    ),
    Rule(
        lambda a: "binary_search" in a and any(field in a for field in (*AGENDAS, "periodic_concurrency")),
        "Binary search needs a range. Give one with {concurrency} or {request_rate}.",
    ),
    *map(_needs_metrics, ("metrics_url", "metrics_interval_ms")),
    Rule(
        lambda a: "collect_metrics" in a and kind_of(a) not in ("triton", "torchserve", "openai", AUTO),
        "The {collect_metrics} option is only supported with Triton client backend.",
        "remove it",
        ours="{collect_metrics} is not supported with this kind of server",
    ),
    Rule(
        lambda a: "zero" in a.get("data.sources", ()) and names_data(a),
        "The zero flag cannot be set when a data directory is provided. Give {data.sources} zero or a path.",
        ours="{data.sources} zero cannot be combined with a path",
    ),
    Rule(
        lambda a: "max_outstanding" in a and not any(field in a for field in DUE),
        "{max_outstanding} applies only to scheduled requests. Use it with {--rate}; {-c} limits requests in flight.",
    ),
    Rule(
        lambda a: (
            "cancel_after_s" in a
            and any(
                field in a for field in ("periodic_concurrency", "session_concurrency", "sequence_length")
            )
        ),
        "{cancel_after_s} applies only to independent requests: cancelling one would leave its sequence, session or "
        "ramp without an answer",
        "remove it",
    ),
    Rule(
        lambda a: (
            "cancel_after_s" in a and (kind_of(a) == "triton_c_api" or ("streaming" in a and is_grpc(a)))
        ),
        "{cancel_after_s} closes the connection or call of a request, but here several requests share one stream",
        "remove it, or measure over HTTP",
    ),
    Rule(
        lambda a: (
            "warmup_s" in a and any(field in a for field in ("periodic_concurrency", "session_concurrency"))
        ),
        "{warmup_s} requires a continuous load: {-c} or {-r}.",
    ),
    Rule(
        lambda a: a.get("ramp_s", 0) > 0 and (_counts(a) > 0 or any(field in a for field in LOAD_MODES[1:])),
        "{ramp_s} staggers the start of users in a timed measurement: use it with {-c} and without {-n}",
        "remove it, or measure for a fixed time with {-c} and {-d}",
    ),
    Rule(
        lambda a: "think_time" in a and any(field in a for field in (*DUE, "periodic_concurrency")),
        "{think_time} applies to users, who wait for their answers: use it with {-c} or {--session-concurrency}",
        "remove it",
    ),
    *map(_no_authorization_with, ("api_key_env", "api_key_file")),
    Rule(
        lambda a: "api_key_env" in a and "api_key_file" in a,
        "{api_key_env} and {api_key_file} are mutually exclusive. Give only one.",
    ),
    Rule(
        lambda a: "quiet" in a and "verbose" in a,
        "{--quiet} and {-v} are mutually exclusive. Give only one.",
    ),
    Rule(
        lambda a: kind_of(a) == "triton_c_api" and not a.get("model_repository"),
        "{model_repository} should not be empty with {service_kind} triton_c_api.",
        "give the folder that contains the models",
        ours="{service_kind} triton_c_api requires {model_repository}",
    ),
    Rule(
        lambda a: kind_of(a) == "triton_c_api" and is_async(a) and a.get("shared_memory", "none") != "none",
        "Cannot use {shared_memory} with asynchronous or streaming calls and {service_kind} triton_c_api.",
        "remove one of them",
    ),
    Rule(
        lambda a: kind_of(a) != "dynamic_grpc" and any(field in a for field in ("grpc_method", "proto")),
        "{grpc_method} and {proto} are only supported with {service_kind} dynamic_grpc",
        "use that kind, or remove them",
    ),
    Rule(
        lambda a: "session_concurrency" in a and kind_of(a) != "openai",
        "The {session_concurrency} option is only supported with {service_kind} openai.",
        "add {service_kind} openai, or use {-c}",
    ),
    Rule(
        lambda a: "session_concurrency" in a and _counts(a) > 0,
        "request-count not supported with {session_concurrency}: every session is played once.",
        "remove it",
        ours="{--requests} is not supported with {session_concurrency}: every session is played once",
    ),
    Rule(
        lambda a: "session_concurrency" in a and a.get("warmup_request_count", 0) > 0,
        "warmup-request-count not supported with {session_concurrency}: every session is played once.",
        "remove it",
        ours="{--warmup-requests} is not supported with {session_concurrency}: every session is played once",
    ),
    Rule(
        lambda a: "session_concurrency" in a and not names_data(a),
        "Must supply {data.sources} FILE with {session_concurrency}.",
        ours="{session_concurrency} requires {data.sources} FILE",
    ),
    *map(_one_value_with_mpi, _RANGES),
    *map(_needs_ray, ("clients", "client_resources")),
    Rule(
        lambda a: "ray" in a and a.get("shared_memory", "none") != "none",
        "{shared_memory} requires a server on the sending machine; with {ray}, other machines send the requests",
        "remove one of them",
    ),
    Rule(
        lambda a: "ray" in a and kind_of(a) == "triton_c_api",
        "{service_kind} triton_c_api runs the server inside a single client, but {ray} starts several clients",
        "remove one of them",
    ),
)


KindRules = Mapping[str, tuple[Rule, ...]]
"""Rules by service kind that replace those in its row."""


def check(given: Given, kind_rules: KindRules | None = None) -> None:
    """Reject the first combination that cannot work."""
    name = kind_of(given)
    kind = KINDS.get(name)
    if kind is not None and "http" not in kind.ports:  # the default protocol is not available then
        given = {"protocol": next(iter(kind.ports)), **given}
    own = () if kind is None else kind.rules
    for rule in (*RULES, *(own if kind_rules is None else kind_rules.get(name, own))):
        if rule.is_broken(given):
            is_ours = kind_rules is None
            message = (rule.ours or rule.message).removesuffix(".") if is_ours else rule.message
            raise UsageError(with_names(message), remedy=with_names(rule.remedy) if is_ours else "")
    for field in () if kind is None else kind.refused:
        if field in given:
            raise UsageError(
                f"{option_name(field)} is not supported with {option_name('service_kind')} {name}",
                remedy="remove it",
            )
    if "shape_load" in given:
        from inferometer.load.plan import parse_shape

        parse_shape(given["shape_load"])


def make(
    given: Given,
    *,
    defaults: Mapping[str, Any] | None = None,
    kind_rules: KindRules | None = None,
    is_lenient: bool = False,
) -> Options:
    """Build the options of a command line on top of the command's `defaults`. Lenient options may have no effect."""
    check(given, kind_rules)
    values, names = {**(defaults or {}), **given}, set(given)
    if "precision" in values:
        values.setdefault("duration_s", DURATION_S)
    if "concurrency" not in values and ("old_start" in values or "old_sweep" in values):
        end = values.get("old_end", 0) if "old_sweep" in values else None
        values["concurrency"] = Range(values.get("old_start", 1), end)
        names.add("concurrency")
    if "insecure" in values:
        values |= {"tls.verify_peer": False, "tls.verify_host": False}
        names.add("tls.verify_peer")
    if "streaming" in values:
        values["asynchronous"] = True
    values["data.sources"] = _sources(values.get("data.sources", ()))
    parts = {name: cls(**_fields(values, f"{name}.", cls)) for name, cls in PARTS.items()}
    given_names = frozenset(names - _WITHOUT_FIELD)
    return Options(**_fields(values, "", Options), **parts, given=given_names, is_lenient=is_lenient)


def load_options(given: Given, target: Target, *, duration_s: float = DURATION_S) -> Options:
    """Build options with the defaults of our own commands: a level ends when its figures are precise, at the latest
    after `duration_s`, and the kind of server is detected unless given."""
    from secrets import randbits

    found = {**given}
    if target.url is not None:
        found["url"] = target.url
    if target.model:
        found["model"] = target.model
    if "grpc_method" in found:
        found.setdefault("service_kind", "dynamic_grpc")
    if target.has_server:
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
    kind = found.get("service_kind")
    if found.get("model") or (kind is not None and (kind == AUTO or not KINDS[kind].needs_model)):
        return
    if kind is None:
        raise UsageError(
            "Neither a server nor a model is given",
            remedy="write both: localhost:8000 MODEL; or let `inferometer quick` find the servers of this machine",
        )
    found["model"] = model_in(found.get("url"), kind)
    if not found["model"]:
        raise UsageError(
            f"{option_name('service_kind')} {kind} requires a model, but none is given",
            remedy=f"give it with {option_name('-m')}, or leave out the kind to detect the server and its "
            "models",
        )


def _fields(values: Mapping[str, Any], prefix: str, cls: type) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(cls)]
    return {name: values[prefix + name] for name in names if prefix + name in values}


def _sources(given: tuple[str, ...]) -> tuple[str, ...]:
    """Drop random, which is the default source."""
    chosen = tuple(source for source in given if source != "random")
    if "zero" in chosen:
        return ("zero",)
    return chosen if chosen else ("random",)


def changed(options: Options, **changes: Any) -> Options:
    """Return the options with changed values, which count as given; None resets an option.

    Values from Python code are checked like those on a command line.
    """
    plain = Options()
    values = {name: getattr(plain, name) if value is None else value for name, value in changes.items()}
    if changes.get("streaming"):
        values.setdefault("asynchronous", True)
    given = set(options.given)
    for name, value in _single(options, changes):
        given.discard(name)
        if value is None or value is False or value in ((), "", {}):
            continue  # Python code's way to leave an option unset
        given.add(name)
        row = BY_FIELD.get(name)
        if row is not None and row.values is not None and row.combine is None:
            row.values.check(Name(name, name), value)
    found = dataclasses.replace(options, **values, given=frozenset(given))
    check({name: value_of(found, name) for name in given})
    return found


def _single(options: Options, changes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every change by field; for a part, only the fields that differ."""
    for name, value in changes.items():
        if name not in PARTS:
            yield name, value
            continue
        before = getattr(options, name)
        for field in dataclasses.fields(before):
            if getattr(value, field.name) != getattr(before, field.name):
                yield f"{name}.{field.name}", getattr(value, field.name)


def with_api_key(options: Options) -> Options:
    """Return the options with the key as a header; the key is never stored with a result or shown in a message."""
    if options.api_key_env is not None:
        key = os.environ.get(options.api_key_env, "")
        refusal = UsageError(
            f"The environment variable '{options.api_key_env}' does not contain a key",
            remedy=f"set it: export {options.api_key_env}=...",
        )
    elif options.api_key_file is not None:
        key = _key_in(options.api_key_file)
        refusal = UsageError(
            f"The file '{options.api_key_file}' does not contain a key",
            remedy="put the key in it, on a single line",
        )
    else:
        return options
    if not key or not key.isascii() or not key.isprintable():
        raise refusal
    headers = (*options.headers, _key_header(options, key))
    given = options.given - {"api_key_env", "api_key_file"}
    return dataclasses.replace(options, headers=headers, api_key_env=None, api_key_file=None, given=given)


def _key_header(options: Options, key: str) -> tuple[str, str]:
    """Return the header for the key: that of the API at the endpoint, or a bearer token."""
    from inferometer.services.apis import maybe_requested

    api = maybe_requested(options.endpoint or (options.url or "").partition("?")[0])
    if api is not None and api.key_header:
        return api.key_header, key
    return "authorization", f"Bearer {key}"  # gRPC metadata names are lower case


def _key_in(path: str) -> str:
    check_path(path)
    found = read_file(
        path, KEY, f"the file of {option_name('api_key_file')}", remedy="give the path of a readable file"
    )
    return found.decode(errors="replace").strip()


def check_model(options: Options, model: ModelSpec) -> None:
    """Reject options that this model does not support."""
    is_sequence = model.any_sequence
    if options.batch is not None and options.batch > 1:
        if model.max_batch_size == 0:
            raise UsageError(
                "can not specify batch size > 1 as the model does not support batching",
                remedy=f"remove {option_name('-b')} {options.batch}, or give '{model.name}' a "
                "max_batch_size above 0",
            )
        if options.batch > model.max_batch_size and not options.is_lenient:
            raise UsageError(
                f"{option_name('-b')} {options.batch} exceeds the max_batch_size of '{model.name}', which is "
                f"{model.max_batch_size}",
                remedy=f"use {option_name('-b')} {model.max_batch_size} or less",
            )
        if is_sequence:
            raise UsageError(
                "can not specify batch size > 1 when using a sequence model",
                remedy=f"remove {option_name('-b')} {options.batch}",
            )
    if model.is_decoupled and not options.streaming:
        raise UsageError(
            f"Decoupled models must be run with `{option_name('--async')}` and "
            f"`{option_name('--streaming')}` and either "
            f"`{option_name('protocol', 'grpc')}` or `{option_name('--service-kind')}=triton_c_api`",
            remedy=""
            if options.is_lenient
            else f"add {option_name('--grpc')} {option_name('streaming')} and use the server's gRPC port",
        )
    if is_sequence:
        if options.fixed_schedule:
            raise UsageError(
                "a fixed schedule sets the time of each step, which conflicts with the order of a sequence",
                remedy=f"use {option_name('replay')} or {option_name('request_intervals')} for a sequence "
                "model",
            )
        _check_sequences(options)


def _check_sequences(options: Options) -> None:
    span = options.concurrency
    if span is not None and span.end == 0 and not options.synchronous:
        raise UsageError(
            "The 'end' concurrency can not be 0 for sequence models when using asynchronous API."
        )
    start, end = (1, None) if options.sequence_ids is None else options.sequence_ids
    if end is None:
        return
    if any(getattr(options, field) for field in ("request_rate", "request_intervals", *AGENDAS)):
        needed, words = options.sequences, "number of sequences"
    else:
        needed = 1 if span is None else int(max(span.start, span.end or 0))
        words = "concurrency"
    if end - max(start, 1) < needed:
        raise UsageError(
            f"sequence id range specified is smaller than the maximum possible {words}, "
            "sequence id collision may occur.",
            remedy=f"give a range of at least {needed} ids with {option_name('sequence_ids')}",
        )
