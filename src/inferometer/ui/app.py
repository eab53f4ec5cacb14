"""The routes of `inferometer ui`: from a request to a page, a file or a change."""

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from time import time
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from inferometer import __version__
from inferometer.base.answer_file import Answer
from inferometer.base.confined import confined_to
from inferometer.base.errors import InferometerError, LocalError, Spell, UnlikeError, UsageError
from inferometer.base.reading import ANSWER, read_regular
from inferometer.base.secrets import MASK
from inferometer.base.text import is_digits
from inferometer.compare.gates import Terms
from inferometer.compare.saved import compare_saved
from inferometer.report.page import render
from inferometer.report.saved import consistent, to_csv, to_html, to_markdown
from inferometer.stats.result import Result
from inferometer.store.filter import RunFilter, parse_filter
from inferometer.store.index import ORDERS
from inferometer.store.process import interrupt
from inferometer.store.run import RUNNING, Run
from inferometer.ui import form, live, uploads
from inferometer.ui.looking import look_at
from inferometer.ui.pages import RunRow, badge, page
from inferometer.ui.security import MOST_UPLOAD, NO_TOKEN, frame_policy, framed
from inferometer.ui.site import Site
from inferometer.ui.trends import document_of, trend_view

PER_PAGE = 50
MENUS = {"command": "Command", "model": "Model", "server": "Server", "tag": "Tag", "state": "State"}
MOST_CHOSEN = 1000  # most runs that one request can change
MEASURE = "measure"  # its options are used to identify a server
MOST_TABLE = 500  # most rows shown of a raw table
STATIC = {"ui.js": "text/javascript", "ui.css": "text/css"}
_LISTED = ("q", "order", "page", *MENUS)  # query parameters of the list
_ID = re.compile(r"[0-9a-f]{4,8}")
_TAG = re.compile(r"[^\s,=]{1,60}")


def application(site: Site) -> Starlette:
    """The application behind the `Gatekeeper`."""
    run = "/runs/{id}"
    routes = [
        Route("/", _runs),
        Route("/new", _new),
        Route("/new/check", _check, methods=["POST"]),
        Route("/new/look", _look, methods=["POST"]),
        Route("/new/start", _start, methods=["POST"]),
        Route("/uploads/{name}", _upload, methods=["PUT"]),
        Route("/jobs/{number}", _job),
        Route("/jobs/{number}/remove", _remove_job, methods=["POST"]),
        Route(run, _run),
        Route(run + "/live", _live),
        Route(run + "/events", _events),
        Route(run + "/report", _report),
        Route(run + "/download/{form}", _download),
        Route(run + "/stop", _stop, methods=["POST"]),
        Route(run + "/tags", _tags, methods=["POST"]),
        Route(run + "/rerun", _rerun, methods=["POST"]),
        Route(run + "/delete", _delete, methods=["POST"]),
        Route("/chosen/delete", _delete_chosen, methods=["POST"]),
        Route("/chosen/tags", _tag_chosen, methods=["POST"]),
        Route("/compare", _compare),
        Route("/compare/report", _compare_report),
        Route("/trend", _trend),
        Route("/trend/report", _trend_report),
        Route("/alive", _alive),
        Route("/static/{name}", _static),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            InferometerError: _refused,
            HTTPException: _http_refused,
            ClientDisconnect: _left,
        },
    )
    app.state.site = site
    return app


def _site(request: Request) -> Site:
    site = cast(Site, request.app.state.site)
    site.touch()
    return site


def _shown(request: Request, name: str, status: int = 200, **values: object) -> HTMLResponse:
    """A page with the common navigation bar."""
    site = _site(request)
    running = site.rows(site.running())
    return HTMLResponse(
        page(name, here=request.scope["path"], running=running, waiting=site.jobs.waiting, **values), status
    )


def _json(content: object, status: int = 200) -> Response:
    """A JSON response in plain ASCII, so that any text can be encoded."""
    return Response(json.dumps(content), status, media_type="application/json")


def _back(place: str) -> RedirectResponse:
    return RedirectResponse(place, status_code=303)


# --- errors


async def _refused(request: Request, error: Exception) -> Response:
    status = 500 if isinstance(error, LocalError) else 400
    return await _failed(request, status, str(error))


async def _http_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = await _failed(request, error.status_code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


async def _left(request: Request, error: Exception) -> Response:
    """The client disconnected before its request was complete: nobody reads the response."""
    return Response(status_code=400)


async def _failed(request: Request, status: int, text: str) -> Response:
    if request.method != "GET" and "json" in request.headers.get("content-type", ""):
        return _json({"error": text}, status)
    return await run_in_threadpool(partial(_shown, request, "error.html.j2", status, text=text))


async def no_token(scope: Any, receive: Any, send: Any) -> None:
    """The response to a request without a token."""
    text = page("token.html.j2", text=NO_TOKEN)
    await HTMLResponse(text, 401)(scope, receive, send)


# --- runs


def _runs(request: Request) -> Response:
    site, query = _site(request), request.query_params
    search, order = query.get("q", ""), query.get("order", "-started_at")
    picked = {name: query.get(name, "") for name in MENUS}
    if order.removeprefix("-") not in ORDERS:
        order = "-started_at"
    number = max(1, int(text) if (text := query.get("page", "1")).isdecimal() and len(text) < 7 else 1)
    trouble, rows, total = "", list[RunRow](), 0
    try:
        chosen = _combined_filter(parse_filter(search.split(), time()), picked)
        total = site.store.count(chosen)
        found = site.store.runs(chosen, order=order, limit=PER_PAGE, offset=(number - 1) * PER_PAGE)
        rows = site.rows(found)
    except UsageError as error:
        trouble = str(error)

    def link(**changed: object) -> str:
        kept = {"q": search, **picked, "order": order, "page": number, **changed}
        return "/?" + urlencode({name: value for name, value in kept.items() if value not in ("", 1)})

    return _shown(
        request,
        "runs.html.j2",
        rows=rows,
        total=total,
        search=search,
        menus=tuple(_menus(site, picked)),
        is_narrowed=bool(search or any(picked.values())),
        order=order,
        number=number,
        pages=-(-total // PER_PAGE),
        link=link,
        trouble=trouble,
        current=site.jobs.current,
        failed=site.jobs.failed,
    )


def _combined_filter(chosen: RunFilter, picked: Mapping[str, str]) -> RunFilter:
    """Combine the typed filter with the choices of the menus."""
    own = {name: value for name, value in picked.items() if value and name != "tag"}
    tags = (*chosen.tags, picked["tag"]) if picked["tag"] else chosen.tags
    return replace(chosen, **own, tags=tags)  # type: ignore[arg-type]


def _menus(site: Site, picked: Mapping[str, str]) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """(name, title, values, choice) of each menu; a chosen value that no run has any more is still listed."""
    choices = site.store.choices()
    for name, title in MENUS.items():
        found = choices.get("tags" if name == "tag" else name, ())
        yield name, title, tuple(sorted({*found, picked[name]} - {""})), picked[name]


def _run_asked(request: Request) -> Run:
    """The run named in the path, which can only be an id."""
    return _run_named(_site(request), request.path_params["id"])


def _run_named(site: Site, name: str) -> Run:
    if _ID.fullmatch(name) is None:
        raise HTTPException(404, "no such run")
    try:
        return site.store.get(name)
    except UsageError as error:
        raise HTTPException(404, str(error)) from error


def _maybe_answer(site: Site, run: Run) -> Answer | None:
    return site.store.answer(run) if site.store.answer_path(run).exists() else None


def _run(request: Request) -> Response:
    site, run = _site(request), _run_asked(request)
    trouble, table = "", list[list[str]]()
    try:
        answer = _maybe_answer(site, run)
        if answer is not None:
            with consistent(run.id):
                table = list(csv.reader(io.StringIO(to_csv(answer))))
    except UsageError as error:
        answer, trouble = None, str(error)
    return _shown(
        request,
        "run.html.j2",
        row=site.row(run),
        has_answer=answer is not None,
        table=table[: MOST_TABLE + 1],
        left_out=max(0, len(table) - 1 - MOST_TABLE),
        trouble=trouble,
        can_start=run.command in site.startables,
    )


def _answer(request: Request) -> tuple[Run, Answer]:
    site, run = _site(request), _run_asked(request)
    answer = _maybe_answer(site, run)
    if answer is None:
        raise HTTPException(404, "this run has no result")
    return run, answer


def _report(request: Request) -> Response:
    run, answer = _answer(request)
    startable = _site(request).startables.get(run.command)
    spell: Spell = str if startable is None else partial(form.label_of, startable.command)
    with consistent(run.id):
        return _frame(request, to_html(answer, spell))


def _frame(request: Request, report: str) -> Response:
    text = framed(report, request.query_params.get("theme", ""))
    return HTMLResponse(text, headers={"content-security-policy": frame_policy(text)})


_DOWNLOADS: Mapping[str, tuple[str, Callable[[Answer], str]]] = {
    "csv": ("text/csv", to_csv),
    "md": ("text/markdown", to_markdown),
    "html": ("text/html", to_html),
}


def _download(request: Request) -> Response:
    run, answer = _answer(request)
    form_name = request.path_params["form"]
    if form_name == "json":
        kind = "application/json"
        content, _ = read_regular(_site(request).store.answer_path(run), ANSWER, "the saved answer")
    elif form_name in _DOWNLOADS:
        kind, write = _DOWNLOADS[form_name]
        with consistent(run.id):
            content = write(answer).encode()
    else:
        raise HTTPException(404, "results are not available in this format")
    name = f"{re.sub('[^a-z]', '', run.command)}-{run.id}.{form_name}"
    return Response(
        content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'}
    )


# --- a running test


def _live(request: Request) -> Response:
    site, run = _site(request), _run_asked(request)
    if run.state != RUNNING:
        return _back(f"/runs/{run.id}")
    return _shown(request, "live.html.j2", row=site.row(run), is_stopping=run.id in site.interrupted)


async def _events(request: Request) -> Response:
    site = _site(request)
    run = await run_in_threadpool(_run_asked, request)
    known = request.headers.get("last-event-id") or request.query_params.get("after", "")
    after = int(known) if known.isdecimal() and len(known) < 12 else 0

    async def stream() -> AsyncIterator[bytes]:
        with site.watched(run) as lines:
            async for piece in live.events(lines, partial(_state, site, run), after=after):
                yield piece

    # nginx would buffer the events.
    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _state(site: Site, run: Run) -> str:
    if site.is_ending:
        return "left alone"
    try:
        found = site.store.get(run.id)
        words, why = badge(found), " ".join(found.verdict.split())
        return "\t".join((found.state, words.tone, words.words, why)) if found.is_over else found.state
    except UsageError:
        return "gone"  # nothing was measured, so the run was removed


# --- changes to a run


async def _form_given(request: Request) -> dict[str, str]:
    """The fields of a form, each given once."""
    found = await _fields_given(request)
    for name, values in found.items():
        if len(values) > 1:
            raise UsageError(f"the field '{name[:80]}' is given twice", remedy="send it once")
    return {name: value for name, (value,) in found.items()}


async def _fields_given(request: Request) -> dict[str, list[str]]:
    body = await request.body()
    _require_type(request, "application/x-www-form-urlencoded", body)
    try:
        return parse_qs(body.decode(), errors="strict", keep_blank_values=True)
    except ValueError as error:
        raise UsageError("the form is not UTF-8 text", remedy="reload the page") from error


def _require_type(request: Request, wanted: str, body: bytes) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and given not in (wanted, ""):
        raise HTTPException(415, f"content type '{given[:80]}' is not supported; send {wanted}")


async def _stop(request: Request) -> Response:
    run = await run_in_threadpool(_run_asked, request)
    if run.state == RUNNING:
        interrupt(run)
        _site(request).interrupted.add(run.id)
    return _back(f"/runs/{run.id}/live")


async def _tags(request: Request) -> Response:
    run = await run_in_threadpool(_run_asked, request)
    given = await _form_given(request)
    store = _site(request).store
    if added := _tags_given(given.get("add", "")):
        await run_in_threadpool(store.tag, run, *added)
    if removed := given.get("remove", ""):
        await run_in_threadpool(store.untag, run, removed)
    return _back(f"/runs/{run.id}")


def _tags_given(text: str) -> list[str]:
    found = [tag for tag in re.split(r"[\s,]+", text) if tag]
    for tag in found:
        if _TAG.fullmatch(tag) is None:
            raise UsageError(
                f"'{tag[:80]}' is not a valid tag",
                remedy="use up to 60 characters, without spaces and without =",
            )
    return found


async def _chosen(request: Request) -> tuple[list[Run], dict[str, list[str]]]:
    """The selected runs and the other fields; if one run does not exist, nothing is changed."""
    site, given = _site(request), await _fields_given(request)
    names = list(dict.fromkeys(given.pop("run", ())))
    if not 0 < len(names) <= MOST_CHOSEN:
        raise UsageError(f"{len(names)} runs are selected", remedy=f"select between 1 and {MOST_CHOSEN:,}")
    return await run_in_threadpool(lambda: [_run_named(site, name) for name in names]), given


def _to_list(request: Request) -> RedirectResponse:
    """Redirect to the list with its filters."""
    query = urlencode([pair for pair in request.query_params.multi_items() if pair[0] in _LISTED])
    return _back(f"/?{query}" if query else "/")


async def _tag_chosen(request: Request) -> Response:
    runs, given = await _chosen(request)
    tags, act = _tags_given(" ".join(given.get("tag", ()))), given.get("act", ["add"])
    if not tags or act not in (["add"], ["remove"]):
        raise UsageError("no tag is given", remedy="enter the tag to add or remove")
    store = _site(request).store
    change = store.tag if act == ["add"] else store.untag
    for run in runs:
        await run_in_threadpool(change, run, *tags)
    return _to_list(request)


async def _delete_chosen(request: Request) -> Response:
    runs, _ = await _chosen(request)
    _require_ended(runs)
    store = _site(request).store
    for run in runs:
        await run_in_threadpool(store.remove, run)
    return _to_list(request)


def _require_ended(runs: Sequence[Run]) -> None:
    for run in runs:
        if run.state == RUNNING:
            raise UsageError(f"run {run.id} is still running", remedy="stop it first")


async def _delete(request: Request) -> Response:
    run = await run_in_threadpool(_run_asked, request)
    _require_ended([run])
    await run_in_threadpool(_site(request).store.remove, run)
    return _back("/")


async def _rerun(request: Request) -> Response:
    run = await run_in_threadpool(_run_asked, request)
    site = _site(request)
    startable = _startable(site, run.command)
    fields = form.filled(startable, run.words[1:])
    found = form.checked(startable, fields, site.uploads)
    if found.errors or any(
        MASK in word for word in found.words
    ):  # a missing file, or a header that was not stored
        return _back(f"/new?{urlencode({'from': run.id})}")
    job = await run_in_threadpool(_queued, site, startable, found)
    return _back(f"/jobs/{job}")


# --- a new run


def _startable(site: Site, name: str) -> form.Startable:
    if name not in site.startables:
        raise UsageError(
            f"'{name[:80]}' cannot be started here", remedy=f"use one of {', '.join(site.startables)}"
        )
    return site.startables[name]


def _new(request: Request) -> Response:
    site, query = _site(request), request.query_params
    fields: dict[str, str | bool] = {}
    name = query.get("command", next(iter(site.startables)))
    if earlier := query.get("from", ""):
        if _ID.fullmatch(earlier) is None:
            raise HTTPException(404, "no such run")
        run = site.store.get(earlier)
        name = run.command
        fields = form.filled(_startable(site, name), run.words[1:])
    startable = _startable(site, name)
    fields |= {key: query[key] for key in (form.URL, form.MODEL) if key in query}
    return _shown(
        request,
        "new.html.j2",
        startable=startable,
        startables=list(site.startables.values()),
        groups=form.groups(startable),
        fields=fields,
        most_upload=MOST_UPLOAD,
    )


async def _filled(request: Request) -> tuple[form.Startable, dict[str, str | bool]]:
    body = await request.body()
    _require_type(request, "application/json", body)
    try:
        given = json.loads(body, object_pairs_hook=_each_once)
        name, fields = given["command"], given["fields"]
        if not isinstance(name, str) or not isinstance(fields, dict):
            raise TypeError
        for key, value in fields.items():
            _check_text(key)
            if not isinstance(value, bool):
                _check_text(value)
        _check_text(name)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise UsageError("the form cannot be read", remedy="reload the page") from error
    return _startable(_site(request), name), fields


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


def _check_text(text: object) -> None:
    """Refuse characters that file names, headers and processes cannot contain: NUL bytes and lone surrogates."""
    if not isinstance(text, str):
        raise TypeError("a field must be a string, true or false")
    if "\0" in text:
        raise ValueError("a string contains a NUL byte")
    text.encode()


async def _check(request: Request) -> Response:
    startable, fields = await _filled(request)
    found = await run_in_threadpool(form.checked, startable, fields, _site(request).uploads)
    return _json({"line": found.line, "errors": found.errors})


async def _look(request: Request) -> Response:
    _, fields = await _filled(request)
    try:
        seen = await run_in_threadpool(_identified, _site(request), fields)
    except InferometerError as error:
        return _json({"error": str(error)})
    return _json(seen)


def _identified(site: Site, fields: form.Filled) -> dict[str, Any]:
    with confined_to(site.uploads):
        return look_at(_startable(site, MEASURE), fields)


async def _start(request: Request) -> Response:
    startable, fields = await _filled(request)
    site = _site(request)
    found = await run_in_threadpool(form.checked, startable, fields, site.uploads)
    if found.errors:
        return _json({"line": found.line, "errors": found.errors}, 422)
    number = await run_in_threadpool(_queued, site, startable, found)
    return _json({"place": f"/jobs/{number}"})


def _queued(site: Site, startable: form.Startable, found: form.Checked) -> int:
    places = [word for option in startable.places for word in (option, str(site.folder / option.strip("-")))]
    return site.jobs.add((*found.words, *places), found.line)


async def _upload(request: Request) -> Response:
    path = await uploads.keep(_site(request).folder, request.path_params["name"], request.stream())
    return _json({"path": str(path)})


def _job_number(request: Request) -> int:
    text = request.path_params["number"]
    if not is_digits(text):
        raise HTTPException(404, "no such job")
    return int(text)


def _job(request: Request) -> Response:
    site = _site(request)
    job = site.jobs.maybe_find(_job_number(request))
    if job is None:
        return _back("/")
    run = site.run_of_job(job)
    if run is not None:
        return _back(f"/runs/{run.id}/live")
    return _shown(request, "job.html.j2", job=job, busy=site.running())


def _remove_job(request: Request) -> Response:
    _site(request).jobs.remove(_job_number(request))
    return _back("/")


# --- comparisons


def _compared(request: Request) -> tuple[list[Run], bool]:
    """The runs to compare, the baseline first: the chosen one, else the earliest."""
    names = request.query_params.getlist("run")[:20]
    site = _site(request)
    runs = sorted((_run_named(site, name) for name in dict.fromkeys(names)), key=lambda run: run.started_s)
    if baseline := request.query_params.get("baseline", ""):
        if baseline not in {run.id for run in runs}:
            raise UsageError(
                f"the baseline '{baseline[:80]}' is not among the runs to compare",
                remedy="choose one of them",
            )
        runs.sort(key=lambda run: run.id != baseline)
    return runs, "force" in request.query_params


def _comparison(request: Request) -> str:
    runs, is_forced = _compared(request)
    site = _site(request)
    results = []
    for run in runs:
        row, answer = site.row(run), _maybe_answer(site, run)
        if not isinstance(answer, Result):
            raise UsageError(
                f"run {row.short} ({run.command}) has no levels to compare",
                remedy="select finished runs of measure or find",
            )
        results.append((f"{row.title} {row.short}", answer))
    with consistent(*(run.id for run in runs)):
        return to_html(compare_saved(results, Terms(), is_forced=is_forced))


def _compare(request: Request) -> Response:
    runs, is_forced = _compared(request)
    trouble, can_force = "", False
    try:
        _comparison(request)
    except (UsageError, UnlikeError) as error:
        trouble = error.spelled(lambda name: "'Compare anyway'" if name.field == "own.force" else name)
        can_force = isinstance(error, UnlikeError) and not is_forced
    query = urlencode([("run", run.id) for run in runs] + [("baseline", run.id) for run in runs[:1]])
    return _shown(
        request,
        "compare.html.j2",
        rows=_site(request).rows(runs),
        query=query,
        is_forced=is_forced,
        trouble=trouble,
        can_force=can_force,
    )


def _compare_report(request: Request) -> Response:
    return _frame(request, _comparison(request))


# --- trends


def _trend(request: Request) -> Response:
    site = _site(request)
    view = trend_view(site.store, request.query_params)
    rows = site.rows(view.runs[::-1])
    return _shown(request, "trend.html.j2", view=view, rows=rows, query=urlencode(view.query))


def _trend_report(request: Request) -> Response:
    site = _site(request)
    view = trend_view(site.store, request.query_params)
    if not view.runs:
        raise HTTPException(404, "there are no runs for a trend")
    names = site.store.shorts(view.runs)
    return _frame(request, render(document_of(view, names, f"inferometer {__version__}")))


# --- the rest


def _alive(request: Request) -> Response:
    _site(request)
    return Response(status_code=204)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "report.css":
        text = files("inferometer.report").joinpath("templates", "style.css").read_text("utf-8")
        return Response(text, media_type="text/css")
    if name not in STATIC:
        raise HTTPException(404, "no such file")
    text = files("inferometer.ui").joinpath("static", name).read_text("utf-8")
    return Response(text, media_type=STATIC[name])
