"""All kinds of answers with their conversions. A new kind takes a file for its type, a file for its document, and a
row here."""

from collections.abc import Callable, Mapping
from typing import Any

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.capacity.plan import CapacityPlan
from inferometer.compare.comparison import Comparison
from inferometer.compare.interference import Interference
from inferometer.compare.regression import RegressionCheck
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.report import answer_csv
from inferometer.report.csv import main_csv
from inferometer.report.document import Document
from inferometer.report.documents.capacity import capacity_document
from inferometer.report.documents.comparison import comparison_document
from inferometer.report.documents.diagnosis import diagnosis_document
from inferometer.report.documents.interference import interference_document
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.documents.regression import regression_document
from inferometer.report.documents.trace import inspection_document
from inferometer.report.documents.tuning import tuning_document
from inferometer.report.documents.twin import twin_document
from inferometer.report.junit import comparison_junit, regression_junit, result_junit
from inferometer.stats.inspection import Inspection
from inferometer.stats.result import Result
from inferometer.tune.study import Study
from inferometer.twin.twin import Twin


@frozen
class AnswerKind:
    """Conversions for one type of answer."""

    type: type[Answer]
    document: Callable[[Any], Document]
    csv: Callable[[Any], str]
    junit: Callable[[Any, Document], str] | None = None  # for answers that pass or fail


KINDS = (
    AnswerKind(Result, measurement_document, main_csv, result_junit),
    AnswerKind(Diagnosis, diagnosis_document, answer_csv.diagnosis_csv),
    AnswerKind(Comparison, comparison_document, answer_csv.comparison_csv, comparison_junit),
    AnswerKind(Study, tuning_document, answer_csv.study_csv),
    AnswerKind(Inspection, inspection_document, answer_csv.inspection_csv),
    AnswerKind(RegressionCheck, regression_document, answer_csv.regression_csv, regression_junit),
    AnswerKind(CapacityPlan, capacity_document, answer_csv.capacity_csv),
    AnswerKind(Interference, interference_document, answer_csv.interference_csv),
    AnswerKind(Twin, twin_document, answer_csv.twin_csv),
)
TYPES = tuple(kind.type for kind in KINDS)
_BY_TYPE: Mapping[type[Answer], AnswerKind] = {kind.type: kind for kind in KINDS}


def kind_of(answer: Answer) -> AnswerKind:
    """The row for an answer's type."""
    return _BY_TYPE[type(answer)]
