"""The requested trend: a model, comparable runs of it, and a common load."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256

from inferometer.base.frozen import frozen
from inferometer.report.document import Document
from inferometer.report.documents.trend import TrendFacts, trend_document
from inferometer.report.format import level_label, plural
from inferometer.stats.history import FigureHistory, RunSetting, figure_histories, histories
from inferometer.store.run import Run
from inferometer.store.store import Store

MOST_RUNS = 1000  # the newest runs, which form a trend
ALL_LOADS = "all"


@frozen
class TrendChoice:
    """One option of a selection."""

    value: str
    label: str


@frozen
class TrendView:
    """The available and selected options, and the selected runs."""

    models: tuple[TrendChoice, ...]
    settings: tuple[TrendChoice, ...]
    loads: tuple[TrendChoice, ...]
    model: str
    setting: str
    load: str
    runs: tuple[Run, ...]

    @property
    def query(self) -> dict[str, str]:
        return {"model": self.model, "setting": self.setting, "load": self.load}


def trend_view(store: Store, asked: Mapping[str, str]) -> TrendView:
    """The requested trend; missing or unknown options default to the latest measurement."""
    groups = histories(store.runs(limit=MOST_RUNS))
    models = tuple(dict.fromkeys(setting.model for setting in groups if setting.model))
    model = _of(asked.get("model", ""), models)
    settings = {_key(row): row for row in groups if row.model == model}
    setting = _of(asked.get("setting", ""), tuple(settings))
    runs = groups[settings[setting]] if setting else ()
    loads = _loads(figure_histories(runs))
    return TrendView(
        tuple(TrendChoice(name, name) for name in models),
        tuple(TrendChoice(key, _words(row, len(groups[row]))) for key, row in settings.items()),
        (*(TrendChoice(key, label) for key, label in loads.items()), TrendChoice(ALL_LOADS, "all loads")),
        model,
        setting,
        _of(asked.get("load", ""), (*loads, ALL_LOADS)),
        runs,
    )


def document_of(view: TrendView, names: Mapping[str, str], tool: str) -> Document:
    """The trend as a report."""
    found = [row for row in figure_histories(view.runs) if view.load in (ALL_LOADS, _load(row))]
    first = view.runs[-1]
    facts = (first.command, first.server, first.host_class, plural(len(view.runs), "run"))
    commits = {run.id: run.commit for run in view.runs}
    return trend_document(
        found, TrendFacts(view.model, tuple(filter(None, facts)), names=names, commits=commits, tool=tool)
    )


def _of(asked: str, known: Sequence[str]) -> str:
    return asked if asked in known else next(iter(known), "")


def _key(setting: RunSetting) -> str:
    return sha256(repr(setting).encode()).hexdigest()[:12]


def _words(setting: RunSetting, count: int) -> str:
    parts = (setting.command, setting.server, setting.host_class, *setting.options)
    return f"{', '.join(filter(None, parts))} ({plural(count, 'run')})"


def _load(history: FigureHistory) -> str:
    return f"{history.variant}:{history.mode}:{history.value}"


def _loads(rows: Sequence[FigureHistory]) -> dict[str, str]:
    """Loads with their names, the most frequent first."""
    counts = Counter[str]()
    labels = dict[str, str]()
    for row in rows:
        counts[_load(row)] = max(counts[_load(row)], len(row.points))
        labels[_load(row)] = f"{row.variant} {level_label(row.mode, row.value)}".strip()
    return {key: labels[key] for key, _ in counts.most_common()}
