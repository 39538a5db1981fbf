"""Work counted in calls of functions: the same on every machine, however slow or busy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest


@contextmanager
def counted_calls(most: int | None = None) -> Iterator[list[int]]:
    """Count the calls that the block makes in this thread, of Python and of C, into the list's one entry.

    Beyond `most` calls the test fails there and then, so that work without end is seen as well.
    """
    calls = [0]

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1
            if most is not None and calls[0] > most:
                sys.setprofile(None)
                pytest.fail(f"more than {most:,} calls")

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
