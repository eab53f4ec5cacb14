"""Tensors in memory shared with the server, so that requests only refer to them.

One region holds everything: the inputs of every request, written once, followed by a place for each output,
which all requests share (it is never read). Its name is new in every run, and no other region is touched:

    create -> write -> register at the server -> unlink the file -> load -> unregister

Once the server has mapped the region, its file is removed, so that none is left behind.
The registration remains; if the run is killed, its guard removes it. Triton (2.50 and later) keeps a region
as long as a request uses it, and cancelled requests continue at the server: hence the guard's long time-out.
"""

import ctypes
import errno
import math
import mmap
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.system import system_name
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.names import option_name, with_names
from inferometer.services.traffic import Steps
from inferometer.services.undo import Undo, guarded

SYSTEM, CUDA = "system", "cuda"
FOLDER = Path("/dev/shm")
LARGEST_OUTPUT = 1 << 36  # bytes
ALIGNMENT = 64
DEVICE = 0
GUARD_TIMEOUT_S = 600.0


# --- layout


class RegionPart(NamedTuple):
    """Position of a tensor in a region."""

    region: str
    offset: int
    size: int

    def parameters(self) -> dict[str, str | int]:
        """Return the parameters that replace the tensor's data in a request."""
        place: dict[str, str | int] = {
            "shared_memory_region": self.region,
            "shared_memory_byte_size": self.size,
        }
        return {**place, "shared_memory_offset": self.offset} if self.offset else place


class Placement(NamedTuple):
    """Positions of all tensors. `inputs[n]` are the parts of request n, in the order of its tensors; an output without
    a part is in the reply."""

    region: str
    size: int
    inputs: tuple[tuple[RegionPart, ...], ...]
    outputs: Mapping[str, RegionPart]


Placed = tuple[Tensor, RegionPart | None]
"""A tensor and its position; None if it is sent in the request."""


def placed(steps: Steps, placement: Placement | None) -> Iterator[list[Placed]]:
    """Yield the tensors of each request with their positions."""
    for number, step in enumerate(steps):
        parts = repeat(None) if placement is None else placement.inputs[number]
        yield list(zip(step, parts, strict=False))


def maybe_part(placement: Placement | None, output: str) -> RegionPart | None:
    """Return the position of an output; None if it is in the reply."""
    return None if placement is None else placement.outputs.get(output)


class OutputPlaces(NamedTuple):
    """Space for outputs: those of unknown size get `unknown_size` bytes per sample of the batch."""

    batch: int
    unknown_size: int
    are_inline: bool = False  # outputs are read, so requests cannot share one place


def layout(model: ModelSpec, steps: Steps, outputs: OutputPlaces, *, region: str) -> Placement:
    """Assign a position to every tensor of every request and to every output."""
    _require_all_inputs(model, steps)
    end = 0

    def next_part(size: int) -> RegionPart:
        nonlocal end
        part = RegionPart(region, end, size)
        end += -(-size // ALIGNMENT) * ALIGNMENT
        return part

    inputs = tuple(tuple(next_part(len(tensor.data)) for tensor in step) for step in steps)
    shared = () if outputs.are_inline else model.outputs
    places = {output.name: next_part(_output_size(output, outputs)) for output in shared}
    return Placement(region, max(end, ALIGNMENT), inputs, places)


def region_name() -> str:
    """Return a name that no other run uses."""
    return f"inferometer_run_{os.getpid()}_{secrets.token_hex(8)}"


def _output_size(output: TensorSpec, outputs: OutputPlaces) -> int:
    from inferometer.model.numbers import DATATYPES

    datatype = DATATYPES.get(output.datatype)
    if output.is_dynamic or datatype is None or datatype.size == 0:
        return outputs.unknown_size * outputs.batch
    size = math.prod(output.shape) * datatype.size * outputs.batch
    if size > LARGEST_OUTPUT:
        raise UsageError(
            f"output '{output.name}' would take {size} bytes of shared memory, more than the limit of {LARGEST_OUTPUT}",
            remedy=f"leave out {option_name('--shared-memory')}",
        )
    return size


def _require_all_inputs(model: ModelSpec, steps: Steps) -> None:
    names = {spec.name for spec in model.inputs}
    for number, step in enumerate(steps):
        missing = sorted(names - {tensor.name for tensor in step})
        if missing:
            what = f"request {number} has no data for '{missing[0]}'"
            raise UsageError(
                f"{what}, but {option_name('--shared-memory')} requires data for every input",
                remedy=f"give data for every input, or leave out {option_name('--shared-memory')}",
                classic="Shared memory support in Perf Analyzer does not support optional inputs at this time "
                f"({what})",
            )


# --- the memory itself


RegionFields = Mapping[str, Any]
"""Fields that describe a region to the server, named as in its protocol."""


@runtime_checkable
class Registry(Protocol):
    """Calls of a server to register and unregister a region."""

    def register_memory(self, kind: str, region: str, fields: RegionFields) -> None: ...

    def unregister_memory(self, kind: str, region: str) -> None: ...


@frozen
class Shared:
    """The tensors to share, with their positions."""

    kind: str  # system or cuda
    placement: Placement
    steps: Steps = field(repr=False)

    def contents(self) -> Iterator[tuple[int, bytes]]:
        """Yield (offset, bytes) of every input."""
        for step, parts in zip(self.steps, self.placement.inputs, strict=True):
            for tensor, part in zip(step, parts, strict=True):
                yield part.offset, tensor.data


@contextmanager
def shared_region(shared: Shared, registry: Registry) -> Iterator[None]:
    """Create, fill and register the region; on exit remove it here and at the server."""
    region = shared.placement.region
    undo = Undo(partial(_unregister, registry, shared.kind, region), GUARD_TIMEOUT_S)
    with guarded(undo) as unregister, _MEMORY[shared.kind](shared) as fields:
        try:
            try:
                registry.register_memory(shared.kind, region, fields)
            except PeerError as error:
                raise PeerError(
                    f"the server cannot use the client's {shared.kind} shared memory: {error.message}",
                    remedy=error.remedy or with_names(_HOW_TO_SHARE[shared.kind]),
                ) from error
            _remove_file(region)
            yield
        finally:
            unregister()


@contextmanager
def _system_memory(shared: Shared) -> Iterator[RegionFields]:
    region, size = shared.placement.region, shared.placement.size
    with _file(region, size) as fd:
        with mmap.mmap(fd, size) as memory:
            for offset, data in shared.contents():
                memory[offset : offset + len(data)] = data
        yield {"key": f"/{region}", "offset": 0, "byte_size": size}


_HOW_TO_SHARE = {
    SYSTEM: "the server must run on this host, as this user or as root; start one in a container with --ipc=host "
    "(docker run --ipc=host ...), or leave out {--shared-memory}",
    CUDA: f"the server must use GPU {DEVICE} of this host; start one in a container with --gpus all --ipc=host "
    "--pid=host, or leave out {--shared-memory}",
}


@contextmanager
def _file(name: str, size: int) -> Iterator[int]:
    if not FOLDER.is_dir():
        raise UsageError(
            f"{system_name()} has no {FOLDER}, where a server on Linux opens system shared memory",
            remedy=f"leave out {option_name('--shared-memory')}, or run this command on the server's Linux "
            "host",
        )
    path = FOLDER / name
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LocalError(
            f"cannot create shared memory in {FOLDER}: {error.strerror}",
            remedy=f"leave out {option_name('--shared-memory')}",
        ) from error
    try:
        _allocate(fd, size)
        yield fd
    finally:
        os.close(fd)
        _remove_file(name)


def _allocate(fd: int, size: int) -> None:
    """Allocate all memory at once: a server that writes to missing memory would crash."""
    if sys.platform == "darwin":
        raise LocalError(f"macOS has no {FOLDER}")
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise LocalError(f"cannot allocate {size} bytes of shared memory: {error.strerror}") from error
        raise LocalError(
            f"not enough space for {size} bytes of shared memory in {FOLDER}",
            remedy="send fewer or smaller requests, or make it larger (docker run --shm-size, "
            f"mount -o remount,size=... {FOLDER})",
        ) from error


def _unregister(registry: Registry, kind: str, region: str) -> None:
    _remove_file(region)
    registry.unregister_memory(kind, region)


def _remove_file(name: str) -> None:
    """Remove the file if it exists."""
    (FOLDER / name).unlink(missing_ok=True)


# --- GPU memory
#
# The required calls of the CUDA driver. Its library is present wherever a GPU can be used; the runtime
# (libcudart) need not be installed. Handles created here can be opened with the runtime's cudaIpcOpenMemHandle.

CUDA_LIBRARY = "libcuda.so.1"

_Handle = ctypes.c_char * 64  # CUipcMemHandle
_Pointer = ctypes.c_uint64  # CUdeviceptr
_SIGNATURES = {
    "cuInit": (ctypes.c_uint,),
    "cuGetErrorString": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "cuDevicePrimaryCtxRelease_v2": (ctypes.c_int,),
    "cuCtxSetCurrent": (ctypes.c_void_p,),
    "cuCtxSynchronize": (),
    "cuMemAlloc_v2": (ctypes.POINTER(_Pointer), ctypes.c_size_t),
    "cuMemFree_v2": (_Pointer,),
    "cuMemcpyHtoD_v2": (_Pointer, ctypes.c_char_p, ctypes.c_size_t),
    "cuIpcGetMemHandle": (ctypes.POINTER(_Handle), _Pointer),
}


@contextmanager
def _cuda_memory(shared: Shared) -> Iterator[RegionFields]:
    driver, size = _Driver(), shared.placement.size
    device, context, address, handle = ctypes.c_int(), ctypes.c_void_p(), _Pointer(), _Handle()
    driver.call("cuInit", 0)
    driver.call("cuDeviceGet", ctypes.byref(device), DEVICE)
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        driver.call("cuCtxSetCurrent", context)
        driver.call("cuMemAlloc_v2", ctypes.byref(address), size)
        try:
            for offset, data in shared.contents():
                if data:
                    driver.call("cuMemcpyHtoD_v2", address.value + offset, data, len(data))
            driver.call("cuCtxSynchronize")  # a copy may return before its last bytes have arrived
            driver.call("cuIpcGetMemHandle", ctypes.byref(handle), address.value)
            yield {"raw_handle": handle.raw, "device_id": DEVICE, "byte_size": size}
        finally:
            driver.attempt("cuMemFree_v2", address)
    finally:
        driver.attempt("cuDevicePrimaryCtxRelease_v2", device)


_MEMORY = {SYSTEM: _system_memory, CUDA: _cuda_memory}


class _Driver:
    """The CUDA driver library; every failed call raises an error."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(CUDA_LIBRARY)
        except OSError as error:
            raise UsageError(
                f"{option_name('--shared-memory', 'cuda')} needs an NVIDIA driver on this machine, but "
                f"{CUDA_LIBRARY} is missing",
                remedy="run inferometer on the machine with the GPU, or use "
                f"{option_name('--shared-memory', 'system')}",
            ) from error
        for name, arguments in _SIGNATURES.items():
            getattr(self._library, name).argtypes = arguments

    def attempt(self, name: str, *arguments: object) -> int:
        """Call the driver and return its result code; 0 is success."""
        return int(getattr(self._library, name)(*arguments))

    def call(self, name: str, *arguments: object) -> None:
        code = self.attempt(name, *arguments)
        if code:
            raise LocalError(
                f"{option_name('--shared-memory', 'cuda')} failed: the CUDA driver answered {name} with "
                f"{self._text(code)}",
                remedy=f"check the GPU with nvidia-smi, or use {option_name('--shared-memory', 'system')}",
            )

    def _text(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        return f"error {code}" if text.value is None else text.value.decode()
