"""Which search is made for which scope."""

from inferometer.base.errors import UsageError
from inferometer.tune.search.brute import brute
from inferometer.tune.search.scope import Scope
from inferometer.tune.search.search import Steps
from inferometer.tune.variant import Names


def choose(asked: str, scope: Scope, names: Names) -> tuple[str, Steps]:
    """The name of the search that is made, and its steps."""
    if asked == "brute":
        return "brute", brute(scope, names)
    raise UsageError(f"there is no search '{asked}'", remedy="take smart, brute, quick or optuna")
