"""The few calls of the CUDA driver that sharing memory with another process takes.

The driver's own library is wherever a GPU can be used; the runtime (libcudart) need not be installed. Handles
made here can be opened with the runtime's cudaIpcOpenMemHandle, which passes them on.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from inferometer.base.errors import LocalError, UsageError

LIBRARY = "libcuda.so.1"

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


class DeviceMemory:
    """Memory on a GPU. Made by `device_memory`."""

    def __init__(self, driver: "_Driver", address: int) -> None:
        self._driver = driver
        self._address = address

    def write(self, offset: int, data: bytes) -> None:
        if data:
            self._driver.call("cuMemcpyHtoD_v2", self._address + offset, data, len(data))

    def handle(self) -> bytes:
        """What another process opens the memory with; whatever was written is there by then."""
        handle = _Handle()
        self._driver.call("cuCtxSynchronize")  # a copy may return before its last bytes have arrived
        self._driver.call("cuIpcGetMemHandle", ctypes.byref(handle), self._address)
        return handle.raw


@contextmanager
def device_memory(number: int, size: int) -> Iterator[DeviceMemory]:
    """`size` bytes on GPU `number`."""
    driver = _Driver()
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), _Pointer()
    driver.call("cuInit", 0)
    driver.call("cuDeviceGet", ctypes.byref(device), number)
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        driver.call("cuCtxSetCurrent", context)
        driver.call("cuMemAlloc_v2", ctypes.byref(address), size)
        try:
            yield DeviceMemory(driver, address.value)
        finally:
            driver.attempt("cuMemFree_v2", address)
    finally:
        driver.attempt("cuDevicePrimaryCtxRelease_v2", device)


class _Driver:
    """The library, with an error for every call that fails."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise UsageError(
                f"--shared-memory cuda needs an NVIDIA driver on this machine, but it has no {LIBRARY}",
                remedy="run inferometer on the machine of the GPU, or use --shared-memory system",
            ) from error
        for name, arguments in _SIGNATURES.items():
            getattr(self._library, name).argtypes = arguments

    def attempt(self, name: str, *arguments: object) -> int:
        """The driver's answer; 0 is success."""
        return int(getattr(self._library, name)(*arguments))

    def call(self, name: str, *arguments: object) -> None:
        code = self.attempt(name, *arguments)
        if code:
            raise LocalError(
                f"--shared-memory cuda failed, as the CUDA driver answered {name} with: {self._text(code)}",
                remedy="check the GPU with nvidia-smi, or use --shared-memory system",
            )

    def _text(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        return f"error {code}" if text.value is None else text.value.decode()
