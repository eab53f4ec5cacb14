"""Several addresses that share the load, and the requests for each of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import redacted
from inferometer.base.text import is_digits
from inferometer.measure.address import connection_to, url_of
from inferometer.measure.checks import changed
from inferometer.measure.instrument import ClassSettings, LevelSettings
from inferometer.measure.points import is_rate
from inferometer.measure.prepare import Habits, Render, Setup, prepare
from inferometer.measure.recognize import open_service
from inferometer.model.spec import ModelSpec
from inferometer.options.names import option_name
from inferometer.options.options import BALANCES, Options
from inferometer.options.words import split_addresses
from inferometer.services.address import Address, read_address
from inferometer.services.undo import TRACE_OPTIONS
from inferometer.stats.measurement import ADDRESS
from inferometer.stats.result import Result

ROUND_ROBIN, LEAST, AFFINITY = BALANCES


@frozen
class SharedAddresses:
    """The addresses with a common scheme and path, and the one whose server describes the model."""

    written: tuple[str, ...]
    main: int = 0

    @property
    def url(self) -> str:
        return self.written[self.main]


def maybe_addresses(options: Options) -> SharedAddresses | None:
    """Return the addresses if there are several; reject those that cannot share a load."""
    written = () if options.url is None else split_addresses(options.url)
    if len(written) < 2:
        if options.balance is not None:
            raise UsageError(
                f"{option_name('balance')} spreads requests over several addresses, but one is given",
                remedy=f"write them with commas, as in a:8000,b:8000, or remove {option_name('balance')}",
            )
        return None
    if "" in written:
        raise UsageError(
            f"'{redacted(options.url or '')}' has an empty address", remedy="write a:8000,b:8000"
        )
    read = tuple(map(read_address, written))
    for number, text in enumerate(written):
        place = read[number].host.lower(), read[number].port
        if place in [(other.host.lower(), other.port) for other in read[:number]]:
            raise UsageError(
                f"the address '{redacted(text)}' is given twice", remedy="give each address once"
            )
        _check_alike(read[0], read[number], f"'{redacted(written[0])}' and '{redacted(text)}'")
        _check_port_is_meant(written[:number], text)
    for name in (*TRACE_OPTIONS, "shared_memory"):
        if name in options.given and getattr(options, name) not in (None, "none"):
            raise UsageError(
                f"{option_name(name)} supports a single server, but {len(written)} addresses are given",
                remedy="remove it, or give one address",
            )
    return SharedAddresses(tuple(_written(read[0]._replace(host=own.host, port=own.port)) for own in read))


def _check_port_is_meant(before: Sequence[str], text: str) -> None:
    """Raise for a number after a host without a port: it may be the port of that host."""
    host = before[-1] if before else ""
    if is_digits(text) and host and not is_digits(host) and read_address(host).port is None:
        raise UsageError(
            f"'{text}' after '{redacted(host)}' may be its port or another address",
            remedy=f"write {redacted(host)}:{text} for one address, or localhost:{text} for another",
        )


def _check_alike(first: Address, own: Address, both: str) -> None:
    """Check that an address repeats the scheme and the path of the first one, or leaves them out."""
    for name in ("scheme", "path", "query"):
        said = getattr(own, name).rstrip("/")
        if said and said != getattr(first, name).rstrip("/"):
            raise UsageError(
                f"the addresses {both} differ in more than host and port",
                remedy="several addresses share one scheme and one path",
            )


def _written(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    port = "" if address.port is None else f":{address.port}"
    scheme = f"{address.scheme}://" if address.scheme else ""
    return f"{scheme}{host}{port}{address.path}{address.query}"


def prepare_shared(options: Options, *, command: str, habits: Habits | None = None) -> Setup:
    """Prepare like `prepare`, for one address or several. The first server that answers describes the model."""
    addresses = maybe_addresses(options)
    if addresses is None:
        return prepare(options, command=command, habits=habits)
    errors = []
    for number in range(len(addresses.written)):
        found = replace(addresses, main=number)
        try:
            there = replace(options, url=found.url)
            return prepare(there, command=command, habits=habits, spread=partial(_spread, found))
        except PeerError as error:
            if not _is_unreachable(error):
                raise
            errors.append(error)
    raise errors[0]


def _is_unreachable(error: PeerError) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return True
        cause = cause.__cause__
    return False


def _spread(addresses: SharedAddresses, setup: Setup, render: Render) -> Setup:
    """Return the setup with the load spread over all addresses. `setup` is that of the main one."""
    policy = _policy(setup)
    parts, warnings = [], []
    for number, text in enumerate(addresses.written):
        if number == addresses.main:
            parts.append(setup)
            continue
        part, warning = _at(setup, addresses, text, render)
        parts.append(part)
        warnings += [warning] if warning else []
    count = len(parts)
    first, *others = (part.traffic.wiring for part in parts)
    traffic = setup.traffic._replace(
        wiring=first._replace(others=tuple(others), balance=policy),
        requests=tuple(request for part in parts for request in part.traffic.requests),
        asked_tokens=setup.traffic.asked_tokens * count,
    )
    journal = setup.journal
    return replace(
        setup,
        traffic=traffic,
        level_settings=_by_address(setup.level_settings, parts),
        result=_result(setup, addresses, parts, policy),
        warnings=(*setup.warnings, *warnings),
        parts=tuple(parts),
        journal=None if journal is None else replace(journal, steps=tuple(journal.steps) * count),
        prompts=None if setup.prompts is None else setup.prompts.repeated(count),
    )


def _policy(setup: Setup) -> str:
    options, asked = setup.options, setup.options.balance
    is_stateful = setup.model.any_sequence
    named = option_name("balance", asked or "")
    if is_stateful and asked not in (None, AFFINITY):
        raise UsageError(
            f"{setup.model.name} keeps the state of a sequence, which {named} would send to several servers",
            remedy=f"use {option_name('balance', AFFINITY)}",
        )
    has_users = setup.sequences is not None or not (is_rate(options) or setup.agenda is not None)
    if asked == AFFINITY and not has_users:
        raise UsageError(
            f"{named} keeps each user at one address, but requests by rate have no users or sessions",
            remedy=f"use {option_name('concurrency')}, sessions or sequences, or {option_name('balance', LEAST)}",
        )
    return asked or (AFFINITY if is_stateful else ROUND_ROBIN)


def _at(setup: Setup, addresses: SharedAddresses, text: str, render: Render) -> tuple[Setup, str]:
    """Return the setup of another address, and a warning if nothing answers there."""
    own, main = read_address(text), read_address(setup.options.url or addresses.url)
    url = url_of(setup.options, main._replace(host=own.host, port=own.port), main.path)
    options = changed(setup.options, url=url)
    connection = connection_to(options)
    service = open_service(options, connection)
    warning = ""
    try:
        _check_same(
            setup, service.describe(options.model, options.version, options.bls_composing_models), text
        )
    except PeerError as error:
        if not _is_unreachable(error):
            raise error.wrapped(f"{redacted(text)}: ", PeerError) from error
        warning = f"WARNING: {redacted(text)} does not answer ({error.message}); its requests will fail."
    traffic = render(service)
    known = setup.traffic.wiring
    wiring = traffic.wiring._replace(
        streams=known.streams,
        unique=known.unique,
        reply_limit=known.reply_limit,
        # A session may continue at another address.
        conversations=known.conversations,
    )
    result = replace(setup.result, server={**setup.result.server, "url": str(connection.endpoint)})
    traffic = traffic._replace(
        wiring=wiring,
        requests=tuple(
            mine if mine == own else own
            for mine, own in zip(setup.traffic.requests, traffic.requests, strict=True)
        ),
    )
    return replace(setup, options=options, service=service, traffic=traffic, result=result), warning


def _check_same(setup: Setup, found: ModelSpec, text: str) -> None:
    for noun in ("inputs", "outputs"):
        if getattr(found, noun) != getattr(setup.model, noun):
            raise UsageError(
                f"the {noun} of model '{setup.model.name}' at {redacted(text)} differ from those at "
                f"{setup.traffic.wiring.endpoint.authority}",
                remedy="several addresses must serve the same model",
            )


def _by_address(settings: LevelSettings, parts: Sequence[Setup]) -> LevelSettings:
    size = len(parts[0].traffic.requests)
    own = replace(
        settings, promise=None, judges_promise=False, asked_tokens=settings.asked_tokens * len(parts)
    )
    classes = tuple(
        ClassSettings(
            name=part.traffic.wiring.endpoint.authority, url=str(part.result.server["url"]), level=own
        )
        for part in parts
    )
    return replace(
        settings,
        asked_tokens=own.asked_tokens,
        classes=classes,
        class_of_step=tuple(number for number in range(len(parts)) for _ in range(size)),
        class_mode=ADDRESS,
    )


def _result(setup: Setup, addresses: SharedAddresses, parts: Sequence[Setup], policy: str) -> Result:
    result, written = setup.result, ",".join(map(redacted, addresses.written))
    urls = [str(part.result.server["url"]) for part in parts]
    names = [part.traffic.wiring.endpoint.authority for part in parts]
    findings = [*result.server["findings"], f"Requests are spread over {', '.join(names)} ({policy})."]
    if setup.metrics is not None:
        findings.append(f"Server metrics are those of {names[addresses.main]} alone.")
    return replace(
        result,
        asked={**result.asked, "url": written},
        server={**result.server, "url": ", ".join(urls), "findings": findings, "balance": policy},
    )
