"""Give freed memory back to the system. Without it, glibc keeps what batches of many lengths have left in pieces."""

import ctypes
import gc
import sys

import psutil

GROWTH = 100e6  # bytes: less costs time, more costs memory


def give_back() -> None:
    """Other systems than Linux do this by themselves, or cannot be asked."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # musl has none
        trim(0)


class FreedMemory:
    """Gives back when this process holds 100 MB more than after the first batch since the last time."""

    def __init__(self) -> None:
        self._held: int | None = None

    def give_back(self) -> None:
        """Call this where one kind of work ends, such as training: its objects go too."""
        gc.collect()
        give_back()
        self._held = None

    def check(self) -> None:
        """Call this between batches."""
        held = psutil.Process().memory_info().rss
        if self._held is None:
            self._held = held
        elif held > self._held + GROWTH:
            give_back()
            self._held = None


freed_memory = FreedMemory()  # one for the process: trainings and encodings share its memory
