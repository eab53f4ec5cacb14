"""The functions for programs with an event loop: the loop stays free, and cancelling ends the run in order."""

import asyncio

import psutil
import pytest

from inferometer import api
from inferometer.base.errors import UsageError
from tests.support.servers import FakeTriton

DEADLINE_S = 60


def test_a_run_is_awaited_and_the_loop_goes_on_meanwhile() -> None:
    async def both(address: str) -> int:
        task = asyncio.create_task(api.aio.measure("fake", url=address, request_count=20, duration_s=None))
        turns = 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0.01)
        (level,) = task.result().levels
        assert level.measurement is not None
        assert level.measurement.request_count == 20
        return turns

    with FakeTriton() as fake:
        assert asyncio.run(both(fake.server.address)) > 1


def test_cancelling_ends_the_run_and_its_processes() -> None:
    async def cancelled(fake: FakeTriton) -> None:
        task = asyncio.create_task(
            api.aio.measure("fake", url=fake.server.address, duration_s=600, precision=1e-9)
        )
        await asyncio.to_thread(fake.wait_for_inferences, 100)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, DEADLINE_S)

    before = {child.pid for child in psutil.Process().children()}
    with FakeTriton() as fake:
        asyncio.run(cancelled(fake))
    workers = [child for child in psutil.Process().children() if child.pid not in before]
    assert [child.pid for child in workers if "load.worker" in " ".join(child.cmdline())] == []


def test_a_wrong_argument_has_the_usual_error() -> None:
    with pytest.raises(UsageError, match="did you mean 'concurrency'"):
        asyncio.run(api.aio.measure("fake", concurency=4))  # type: ignore[call-arg]
