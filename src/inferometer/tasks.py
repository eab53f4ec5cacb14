"""For tasks written in Python: what the function of a task receives (docs/agents.md)."""

from inferometer.model.python_task import AnswerStream, CallFailedError, Task, TaskAnswer

__all__ = ["AnswerStream", "CallFailedError", "Task", "TaskAnswer"]
