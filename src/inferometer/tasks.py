"""Types for tasks written in Python: the argument of a task's function, and the answers to its calls
(docs/agents.md)."""

from inferometer.model.python_task import AnswerStream, CallFailedError, Task, TaskAnswer

__all__ = ["AnswerStream", "CallFailedError", "Task", "TaskAnswer"]
