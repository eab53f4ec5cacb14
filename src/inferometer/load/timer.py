"""A timer that epoll can wait for: epoll's own time-out is rounded to whole milliseconds."""

import contextlib
import ctypes
import os
import sys

from inferometer.base.errors import LocalError
from inferometer.base.units import NS_PER_S

_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE = 1


class _Spec(ctypes.Structure):
    """struct itimerspec: the interval, which stays 0, and the time."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("s", ctypes.c_long),
        ("ns", ctypes.c_long),
    )


class Timer:
    """`fd` becomes readable at the time set last."""

    def __init__(self) -> None:
        self._set_at = 0
        if sys.version_info >= (3, 13):
            self.fd = os.timerfd_create(_MONOTONIC, flags=_NONBLOCK_CLOEXEC)
            return
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._spec = _Spec()
        self._pointer = ctypes.byref(self._spec)
        self.fd = self._libc.timerfd_create(_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self.fd < 0:
            raise LocalError(f"no timer could be made: {os.strerror(ctypes.get_errno())}")

    def set(self, time_ns: int) -> None:
        """On the clock of `time.monotonic_ns`; a time that has passed fires at once."""
        if time_ns == self._set_at:
            return
        self._set_at = time_ns
        if sys.version_info >= (3, 13):
            os.timerfd_settime_ns(self.fd, flags=os.TFD_TIMER_ABSTIME, initial=time_ns)
            return
        self._spec.s, self._spec.ns = divmod(time_ns, NS_PER_S)
        self._libc.timerfd_settime(self.fd, _ABSOLUTE, self._pointer, None)

    def clear(self, mask: int) -> None:
        """It has fired: make it wait for the next time."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 8)
        self._set_at = 0
