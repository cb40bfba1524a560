"""Ctrl-C and SIGTERM while a campaign runs: the first asks it to stop, the second ends it."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def hearing_signals(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call ``stop`` with the signal, on the running loop, for the length of the block.

    Outside the main thread, and where the platform has no such handlers, nothing is installed and
    the caller's own handling stands.
    """
    loop = asyncio.get_running_loop()
    installed = []
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
            installed.append(number)
    except (NotImplementedError, RuntimeError, ValueError):
        pass
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
