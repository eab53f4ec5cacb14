"""Layout of tensors, and cleanup of the region on every exit; the server is a list of calls."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.services import shared_memory
from inferometer.services.shared_memory import (
    FOLDER,
    OutputPlaces,
    Placement,
    RegionFields,
    RegionPart,
    Shared,
    layout,
    region_name,
    shared_region,
)

MODEL = ModelSpec(
    name="m",
    version="",
    inputs=(TensorSpec("A", "FP32", (-1,)), TensorSpec("B", "INT8", (3,))),
    outputs=(
        TensorSpec("FIXED", "FP16", (2, 5)),
        TensorSpec("OPEN", "INT32", (-1,)),
        TensorSpec("TEXT", "BYTES", (4,)),
    ),
    max_batch_size=8,
)
STEPS = (
    (Tensor("A", "FP32", (100,), bytes(range(200)) * 2), Tensor("B", "INT8", (3,), b"one")),
    (Tensor("A", "FP32", (0,), b""), Tensor("B", "INT8", (3,), b"two")),
)


def place(steps=STEPS, model: ModelSpec = MODEL, **changes) -> Placement:
    outputs = OutputPlaces(**{"batch": 1, "unknown_size": 1000, **changes})
    return layout(model, steps, outputs, region="r")


def parts(placement: Placement) -> list[RegionPart]:
    return [part for step in placement.inputs for part in step] + list(placement.outputs.values())


# --- layout


def test_parts_have_the_size_of_their_tensors_and_do_not_overlap():
    placement = place()
    assert [[part.size for part in step] for step in placement.inputs] == [[400, 3], [0, 3]]
    end = 0
    for part in sorted(parts(placement), key=lambda part: part.offset):
        assert part.offset >= end
        assert part.offset % 64 == 0
        end = part.offset + part.size
    assert end <= placement.size


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        (1, {"FIXED": 20, "OPEN": 1000, "TEXT": 1000}),
        (3, {"FIXED": 60, "OPEN": 3000, "TEXT": 3000}),
    ],
)
def test_outputs_have_their_size_or_the_one_for_unknown(batch: int, sizes: dict[str, int]):
    placement = place(batch=batch)
    assert {name: part.size for name, part in placement.outputs.items()} == sizes


def test_outputs_that_are_read_have_no_part():
    assert place(are_inline=True).outputs == {}


def test_an_empty_placement_is_still_a_region():
    bare = ModelSpec(name="m", version="", inputs=(), outputs=())
    assert place(steps=((),), model=bare).size > 0


def test_a_request_without_an_optional_input_is_refused():
    with pytest.raises(
        UsageError, match="request 1 has no data for 'B', but --shared-memory requires data for every input"
    ):
        place(steps=(STEPS[0], STEPS[1][:1]))


def test_an_offset_of_0_is_omitted():
    assert RegionPart("r", 0, 8).parameters() == {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    assert RegionPart("r", 64, 8).parameters()["shared_memory_offset"] == 64


def test_a_system_without_shared_memory_files_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(shared_memory, "FOLDER", tmp_path / "shm")
    monkeypatch.setattr(shared_memory, "system_name", lambda: "Darwin 24.1.0")
    with (
        pytest.raises(
            UsageError, match=r"^Darwin 24.1.0 has no .*/shm, where a server on Linux opens"
        ) as found,
        shared_memory._file("region", 10),
    ):
        pass
    assert "leave out --shared-memory" in found.value.remedy


def test_every_run_has_its_own_name():
    assert region_name() != region_name()
    assert f"_{os.getpid()}_" in region_name()


# --- the region


class Server:
    """Server that opens the key when a region is registered, and keeps its content."""

    def __init__(self, *answers: Exception | None) -> None:
        self.known: dict[str, bytes] = {}
        self.calls = 0
        self._answers = list(answers)  # to unregister calls

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Server, ()

    def register_memory(self, kind: str, region: str, fields: RegionFields) -> None:
        assert (kind, fields["offset"]) == ("system", 0)
        key = fields["key"]
        try:
            self.known[region] = Path(FOLDER, key.lstrip("/")).read_bytes()
        except FileNotFoundError:
            raise PeerError(f"Unable to open shared memory region: '{key}'") from None
        assert len(self.known[region]) == fields["byte_size"]

    def unregister_memory(self, kind: str, region: str) -> None:
        self.calls += 1
        answer = self._answers.pop(0) if self._answers else None
        if answer is not None:
            raise answer
        self.known.pop(region, None)


class Elsewhere(Server):
    """A server that sees another /dev/shm."""

    def register_memory(self, kind: str, region: str, fields: RegionFields) -> None:
        super().register_memory(kind, region, {**fields, "key": f"{fields['key']}_elsewhere"})


def unreachable() -> PeerError:
    error = PeerError("cannot be reached", remedy="check the address")
    error.__cause__ = ConnectionRefusedError()
    return error


@pytest.fixture
def region() -> Iterator[str]:
    name = region_name()
    yield name
    assert not (FOLDER / name).exists()


def shared(region: str, *, kind: str = "system", size: int | None = None) -> Shared:
    placement = layout(MODEL, STEPS, OutputPlaces(batch=1, unknown_size=1000), region=region)
    if size is not None:
        placement = Placement(region, size, placement.inputs, placement.outputs)
    return Shared(kind, placement, STEPS)


def test_the_server_finds_every_tensor_at_its_place(region: str):
    server, told = Server(), shared(region)
    with shared_region(told, server):
        seen = server.known[region]
        for step, places in zip(STEPS, told.placement.inputs, strict=True):
            for tensor, part in zip(step, places, strict=True):
                assert seen[part.offset : part.offset + part.size] == tensor.data
        assert not (FOLDER / region).exists()
    assert server.known == {}


def test_only_the_own_region_is_unregistered(region: str):
    server = Server()
    server.known["somebody"] = b""
    with shared_region(shared(region), server):
        pass
    assert list(server.known) == ["somebody"]


def test_an_error_inside_is_raised_and_the_region_unregistered(region: str):
    server = Server()
    with pytest.raises(ZeroDivisionError), shared_region(shared(region), server):
        raise ZeroDivisionError
    assert server.known == {}


def test_a_server_that_is_gone_hides_no_error(region: str):
    server = Server(*(unreachable() for _ in range(1000)))
    with pytest.raises(ZeroDivisionError), shared_region(shared(region), server):
        raise ZeroDivisionError
    assert 1 < server.calls < 1000  # it is soon considered gone


def test_a_server_that_is_back_at_once_unregisters_the_region(region: str):
    server = Server(unreachable(), unreachable())
    with shared_region(shared(region), server):
        pass
    assert server.known == {}


def test_a_region_in_use_is_unregistered_when_its_requests_have_ended(region: str):
    in_use = PeerError("Cannot unregister shared memory region, it is currently in use.")
    server = Server(in_use, in_use)
    with shared_region(shared(region), server):
        pass
    assert server.known == {}
    assert server.calls == 3


def test_a_reset_connection_is_retried(region: str):
    broken = PeerError("cannot be reached")
    broken.__cause__ = ConnectionResetError()
    server = Server(broken, broken)
    with shared_region(shared(region), server):
        pass
    assert server.known == {}
    assert server.calls == 3


def test_a_server_that_does_not_see_the_region_gets_a_remedy(region: str):
    with pytest.raises(PeerError) as caught, shared_region(shared(region), Elsewhere()):
        raise AssertionError
    assert "Unable to open shared memory region" in caught.value.message
    assert "--ipc=host" in caught.value.remedy


def test_an_unreachable_server_is_reported_as_usual(region: str):
    class Unreachable(Server):
        def register_memory(self, kind: str, region: str, fields: RegionFields) -> None:
            raise unreachable()

    with pytest.raises(PeerError) as caught, shared_region(shared(region), Unreachable()):
        raise AssertionError
    assert caught.value.remedy == "check the address"


def test_missing_space_is_reported_before_registration(region: str):
    server = Server()
    with (
        pytest.raises(LocalError, match="not enough space for 1125899906842624 bytes"),
        shared_region(shared(region, size=1 << 50), server),
    ):
        raise AssertionError
    assert server.calls == 0


def test_a_name_that_is_taken_is_never_used(region: str):
    path = FOLDER / region
    path.write_bytes(b"somebody's")
    try:
        with pytest.raises(LocalError, match="File exists"), shared_region(shared(region), Server()):
            raise AssertionError
        assert path.read_bytes() == b"somebody's"
    finally:
        path.unlink()


# --- cuda


def test_without_a_driver_cuda_fails_with_one_sentence(region: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_memory, "CUDA_LIBRARY", "libcuda-of-nobody.so.1")
    with pytest.raises(UsageError) as caught, shared_region(shared(region, kind="cuda"), Server()):
        raise AssertionError
    assert "\n" not in str(caught.value)
    assert "needs an NVIDIA driver" in caught.value.message


class Driver:
    """A CUDA driver that does nothing, except for returning an error for one call."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: object) -> int:
            self.called.append(name)
            return 2 if name == self.failing else 0

        call.argtypes = ()  # type: ignore[attr-defined]
        return call


@pytest.mark.parametrize(
    ("failing", "freed"),
    [
        ("cuInit", []),
        ("cuMemAlloc_v2", ["cuDevicePrimaryCtxRelease_v2"]),
        ("cuMemcpyHtoD_v2", ["cuMemFree_v2", "cuDevicePrimaryCtxRelease_v2"]),
        ("cuIpcGetMemHandle", ["cuMemFree_v2", "cuDevicePrimaryCtxRelease_v2"]),
    ],
)
def test_a_failed_driver_call_is_named_and_resources_are_freed(
    region: str, monkeypatch: pytest.MonkeyPatch, failing: str, freed: list[str]
):
    driver = Driver(failing)
    monkeypatch.setattr("ctypes.CDLL", lambda name: driver)
    with pytest.raises(LocalError, match=f"{failing} with error 2"), contextlib.ExitStack() as stack:
        stack.enter_context(shared_region(shared(region, kind="cuda"), Server()))
    after = driver.called[driver.called.index("cuGetErrorString") + 1 :]
    assert after == freed


def test_device_memory_is_unregistered_before_it_is_freed(region: str, monkeypatch: pytest.MonkeyPatch):
    driver = Driver()

    class Gpu(Server):
        def register_memory(self, kind: str, region: str, fields: RegionFields) -> None:
            handle = fields["raw_handle"]
            driver.called.append(f"register {len(handle)} bytes of handle, GPU {fields['device_id']}")

        def unregister_memory(self, kind: str, region: str) -> None:
            driver.called.append(f"unregister {kind}")

    monkeypatch.setattr("ctypes.CDLL", lambda name: driver)
    with shared_region(shared(region, kind="cuda"), Gpu()):
        driver.called.append("load")
    assert driver.called == [
        "cuInit",
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuMemAlloc_v2",
        *["cuMemcpyHtoD_v2"] * 3,  # the fourth tensor is empty
        "cuCtxSynchronize",
        "cuIpcGetMemHandle",
        "register 64 bytes of handle, GPU 0",
        "load",
        "unregister cuda",
        "cuMemFree_v2",
        "cuDevicePrimaryCtxRelease_v2",
    ]
