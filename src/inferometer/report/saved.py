"""Any saved result, and the report of any result: which kind it is, the file itself says."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from inferometer.base import answer_file
from inferometer.base.errors import UsageError
from inferometer.base.writing import write_file
from inferometer.capacity.plan import CapacityPlan
from inferometer.compare.comparison import Comparison
from inferometer.compare.interference import Interference
from inferometer.compare.regression import RegressionCheck
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.report.counted import counts_requests, in_requests
from inferometer.report.document import Document
from inferometer.report.documents.capacity import capacity_document
from inferometer.report.documents.comparison import comparison_document, sentences
from inferometer.report.documents.diagnosis import diagnosis_document
from inferometer.report.documents.interference import interference_document
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.documents.regression import regression_document
from inferometer.report.documents.trace import inspection_document
from inferometer.report.documents.tuning import tuning_document
from inferometer.report.documents.twin import twin_document
from inferometer.report.junit import comparison_cases, junit, regression_cases, result_cases
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.stats.inspection import Inspection
from inferometer.stats.result import Result
from inferometer.tune.study import Study
from inferometer.twin.twin import Twin

Report = (
    Result
    | Diagnosis
    | Comparison
    | Study
    | Inspection
    | RegressionCheck
    | CapacityPlan
    | Interference
    | Twin
)
KINDS: tuple[type[Report], ...] = (
    Result,
    Diagnosis,
    Comparison,
    Study,
    Inspection,
    RegressionCheck,
    CapacityPlan,
    Interference,
    Twin,
)


def read(path: Path) -> Report:
    """The answer in a file."""
    return answer_file.read(path, *KINDS)


@contextmanager
def consistent(*origins: str) -> Iterator[None]:
    """Around whatever is made of saved files: each figure of one may be right, and they may still not fit together."""
    try:
        yield
    except (ArithmeticError, LookupError, ValueError) as error:
        names = " or ".join(f"'{origin}'" for origin in origins)
        raise UsageError(
            f"{names} holds figures that do not fit together: {type(error).__name__}: {error}",
            remedy="give the file as it was written, or measure again",
        ) from error


def document(report: Report) -> Document:
    """The report as a document, ready to be written in any form; it carries the file it was made of."""
    if isinstance(report, Diagnosis):
        found = diagnosis_document(report)
    elif isinstance(report, Comparison):
        found = comparison_document(report)
    elif isinstance(report, Study):
        found = tuning_document(report)
    elif isinstance(report, Inspection):
        found = inspection_document(report)
    elif isinstance(report, RegressionCheck):
        found = regression_document(report)
    elif isinstance(report, CapacityPlan):
        found = capacity_document(report)
    elif isinstance(report, Interference):
        found = interference_document(report)
    elif isinstance(report, Twin):
        found = twin_document(report)
    else:
        found = measurement_document(report)
    if any(counts_requests(result.effective) for result in _results(report)):
        found = in_requests(found)
    source = answer_file.to_json(report)
    return replace(found, source=source, source_name=f"{report.kind}.json", tool=report.tool)


def _results(report: Report) -> tuple[Result, ...]:
    if isinstance(report, Comparison):
        return tuple(variant.result for variant in report.variants)
    if isinstance(report, Diagnosis):
        return report.results
    return (report,) if isinstance(report, Result) else ()


def to_html(report: Report) -> str:
    """The report as one self-contained page."""
    return render(document(report))


def to_markdown(report: Report) -> str:
    """The report as Markdown, without the charts."""
    return markdown(document(report))


def write_page(path: Path, report: Report) -> None:
    """Write the report as one self-contained page."""
    write_file(path, to_html(report))


def to_junit(report: Comparison | RegressionCheck | Result) -> str:
    """The report as JUnit XML, for CI."""
    if isinstance(report, RegressionCheck):
        said = document(report).verdict
        return junit("inferometer gate", report.started_at, regression_cases(report), said)
    if isinstance(report, Comparison):
        return junit(
            "inferometer compare",
            report.started_at,
            comparison_cases(report),
            "\n".join(sentences(report)),
        )
    verdict = document(report).verdict
    text = junit(f"inferometer {report.command}", report.started_at, result_cases(report), verdict)
    return in_requests(text) if counts_requests(report.effective) else text
