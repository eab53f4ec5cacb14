"""What a list shows of an answer, also of a kind that has no row in the tables."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

from inferometer.base.answer_file import Answer
from inferometer.base.frozen import frozen
from inferometer.report import saved
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, Ruling
from inferometer.store.run import Run
from inferometer.store.summary import concluded, summarized


@frozen
class Other(Answer):
    kind: ClassVar[str] = "other"
    tool: str = "inferometer"


@frozen
class Ruled(Other):
    ruling: Ruling = SHOWN


@pytest.fixture
def _shown(monkeypatch: pytest.MonkeyPatch) -> None:
    words = SimpleNamespace(verdict="It holds. More.", tone=SimpleNamespace(value="good"))
    monkeypatch.setattr(saved, "document", lambda _: words)


@pytest.mark.usefixtures("_shown")
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(Other(), ""), (Ruled(), ""), (Ruled(ruling=NOT_SHOWN), ""), (Ruled(ruling=INCONCLUSIVE), INCONCLUSIVE)],
)
def test_another_kind_of_answer_has_the_outcome_of_its_ruling(answer: Answer, outcome: str) -> None:
    run = concluded(summarized(Run("1", "other"), answer), answer)
    assert (run.verdict, run.tone, run.outcome, run.points) == ("It holds.", "good", outcome, ())
