"""Which search is made for which scope."""

from inferometer.base.errors import UsageError
from inferometer.tune.search.brute import brute
from inferometer.tune.search.quick import quick
from inferometer.tune.search.scope import Scope
from inferometer.tune.search.search import Steps
from inferometer.tune.variant import Names


def choose(asked: str, scope: Scope, names: Names) -> tuple[str, Steps]:
    """The name of the search that is made, and its steps. What consists of several models is never walked whole."""
    if asked == "smart":
        from inferometer.tune.search.smart import smart

        return "smart", smart(scope, names)
    if asked == "optuna":
        from inferometer.tune.search.tpe import optuna_search

        return "optuna", optuna_search(scope, names)
    if asked == "quick" or (asked == "brute" and _is_composed(scope)):
        return "quick", quick(scope, names)
    if asked == "brute":
        return "brute", brute(scope, names)
    raise UsageError(f"there is no search '{asked}'", remedy="take smart, brute, quick or optuna")


def _is_composed(scope: Scope) -> bool:
    return len(scope.tasks) > 1 or any(task.members for task in scope.tasks)
