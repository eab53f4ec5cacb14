"""Model servers on a Ray cluster, each with its own GPU or cores, that measure trials at the same time."""

import contextlib
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from inferometer.base.deadline import UNDO_LAST_S, Deadline, DeadlineError
from inferometer.base.errors import InferometerError, LocalError
from inferometer.cluster.ray_messages import (
    SERVER,
    AskClient,
    BeginClients,
    ClientsBegun,
    ClientsEnded,
    EndClients,
    RaySettings,
)
from inferometer.cluster.ray_process import RayProcess
from inferometer.cluster.ray_shares import sets_of_cores
from inferometer.stats.watcher import Watcher
from inferometer.tune.attempt import Attempt
from inferometer.tune.machine import ServerMachine, most_alike
from inferometer.tune.model_config import Fields
from inferometer.tune.parallel import ServerLost
from inferometer.tune.search.search import Proposal
from inferometer.tune.server_agent import (
    CloseServer,
    DescribeServer,
    InterruptTrial,
    MeasureTrial,
    OpenServer,
    ReadConfig,
    ServerAnswer,
    ServerFacts,
    ServerFailed,
    ServerJob,
    ServerQuestion,
)

BEGIN_S = 240.0  # the process that talks to Ray has shorter limits, each with its own message
ASK_S = 60.0
CLOSE_S = 15.0  # for the model servers to end in order; otherwise they end with their actors
Answer = TypeVar("Answer")
LOST = "the connection to the Ray cluster was lost"


@dataclass(slots=True)
class RayServers:
    """Servers on the Ray cluster at an address, all on machines of the same kind. As a context manager it stops
    everything it started."""

    address: str
    count: int
    job: ServerJob
    watcher: Watcher
    machines: Sequence[ServerMachine] = ()  # of the participating servers
    left_out: Sequence[ServerMachine] = ()
    _ray: RayProcess | None = None
    _actors: list[int] = field(default_factory=list)  # indices of the participating actors
    _asked: dict[int, int] = field(default_factory=dict)  # trials: question number -> server

    def __enter__(self) -> Self:
        settings = RaySettings(self.address, self.count, noun=SERVER)
        self._ray = RayProcess(settings, self.watcher.is_interrupted)
        self._ray.__enter__()
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        ray = self._opened
        ray.send(BeginClients((pickle.dumps(self.job),) * self.count, {}))
        begun = ray.expect(ClientsBegun, BEGIN_S).clients
        self._actors = list(range(len(begun)))
        facts = [self._expected(ServerFacts, answer) for answer in self._ask_all(DescribeServer(), ASK_S)]
        cores = sets_of_cores([client.machine for client in begun], [fact.cores for fact in facts])
        machines = [
            ServerMachine(client.place, fact.processor, own, fact.memory_bytes, fact.gpus)
            for client, fact, own in zip(begun, facts, cores, strict=True)
        ]
        chosen = most_alike(machines)
        self.left_out = [machine for number, machine in enumerate(machines) if number not in chosen]
        self.machines = [machines[number] for number in chosen]
        if self.left_out:
            ray.send(EndClients([number for number in self._actors if number not in chosen]))
            ray.expect(ClientsEnded, ASK_S)
        self._actors = chosen
        limit_s = self.job.launch.timeout_s + ASK_S
        opening = [OpenServer(machine.cores) for machine in self.machines]
        for answer in self._ask_each(opening, limit_s):
            self._expected(object, answer)

    def __exit__(self, *_: object) -> None:
        ray, self._ray = self._ray, None
        if ray is None:
            return
        try:
            if not ray.is_gone and self._actors:
                self._ray = ray
                with contextlib.suppress(InferometerError):  # otherwise they end with their actors
                    self._ask_all(CloseServer(), CLOSE_S)
                ray.send(EndClients(self._actors))
                with contextlib.suppress(InferometerError):
                    ray.expect(ClientsEnded, ASK_S, is_end=True)
        finally:
            self._ray = None
            ray.__exit__()

    @property
    def _opened(self) -> RayProcess:
        assert self._ray is not None
        return self._ray

    # --- TrialServers

    def begin(self, server: int, proposal: Proposal) -> None:
        self._asked[self._ask(server, MeasureTrial(proposal))] = server

    def ended(self, timeout_s: float) -> Sequence[tuple[int, Attempt | ServerLost]]:
        ray = self._opened
        ray.read(0)
        if not any(number in ray.said for number in self._asked):
            ray.read(timeout_s)
        found: list[tuple[int, Attempt | ServerLost]] = []
        for number, server in list(self._asked.items()):
            answer = self._maybe_answer(number)
            if answer is None:
                continue
            del self._asked[number]
            if isinstance(answer, ServerFailed):
                raise answer.error or LocalError(answer.text)
            assert isinstance(answer, Attempt | ServerLost)
            found.append((server, answer))
        return found

    def interrupt(self) -> None:
        for server in self._asked.values():
            self._ask(server, InterruptTrial())

    def config(self, model: str) -> Fields:
        """Return a server's view of the model's own configuration."""
        (answer,) = self._wait_for([self._ask(0, ReadConfig(model))], ASK_S + self.job.launch.timeout_s)
        return self._expected(dict, answer)

    # --- questions

    def _ask(self, server: int, question: ServerQuestion) -> int:
        number = self._opened.next_number()
        is_aside = isinstance(question, InterruptTrial)
        self._opened.send(AskClient(number, self._actors[server], pickle.dumps(question), is_aside))
        return number

    def _ask_all(self, question: ServerQuestion, limit_s: float) -> Sequence[ServerAnswer | ServerLost]:
        return self._ask_each([question] * len(self._actors), limit_s)

    def _ask_each(
        self, questions: Iterable[ServerQuestion], limit_s: float
    ) -> Sequence[ServerAnswer | ServerLost]:
        return self._wait_for([self._ask(*row) for row in enumerate(questions)], limit_s)

    def _wait_for(self, numbers: Sequence[int], limit_s: float) -> Sequence[ServerAnswer | ServerLost]:
        ray, deadline = self._opened, Deadline.after(limit_s, last_s=UNDO_LAST_S)
        found: dict[int, ServerAnswer | ServerLost] = {}
        while True:
            for number in numbers:
                answer = None if number in found else self._maybe_answer(number)
                if answer is not None:
                    found[number] = answer
            if len(found) == len(numbers):
                return [found[number] for number in numbers]
            try:
                ray.read(deadline.wait_s())
            except DeadlineError as late:
                raise LocalError(
                    f"a server on the Ray cluster did not answer {late}",
                    remedy="its node may be overloaded or unreachable; run `ray status`",
                ) from late

    def _maybe_answer(self, number: int) -> ServerAnswer | ServerLost | None:
        said = self._opened.said.pop(number, None)
        if said is None:
            return ServerLost(LOST) if self._opened.is_gone else None
        if said.lost:
            return ServerLost(said.lost)
        answer: ServerAnswer = pickle.loads(said.answer)
        return answer

    def _expected(self, kind: type[Answer], answer: ServerAnswer | ServerLost) -> Answer:
        if isinstance(answer, ServerFailed):
            raise answer.error or LocalError(answer.text)
        if isinstance(answer, ServerLost):
            raise LocalError(
                f"a server on the Ray cluster was lost before it started: {answer.why}",
                remedy="check the logs of its node; run `ray status`",
            )
        assert isinstance(answer, kind)
        return answer
