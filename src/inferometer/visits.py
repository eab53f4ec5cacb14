"""Types for visits written in Python: the values that a visit of a scenario may yield (docs/scenarios.md)."""

from inferometer.model.visit import Call, Pause, VisitAnswer, call, pause

__all__ = ["Call", "Pause", "VisitAnswer", "call", "pause"]
