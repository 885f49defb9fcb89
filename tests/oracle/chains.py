"""The longest chain of sends of which each waits for the one before, by looking at all pairs."""

from collections.abc import Callable, Sequence
from typing import Any

from oracle import is_needed, order_of


def longest_chain(sends: Sequence[Any], is_awaited: Callable[[Any, Any], bool] = is_needed) -> int:
    """Sends of the longest chain; is_awaited(send, arrival): whether one waits for the other."""
    sends = sorted(sends, key=order_of)
    lengths: list[int] = []
    for i, send in enumerate(sends):
        before = [lengths[j] for j in range(i) if is_awaited(send, sends[j])]
        lengths.append(1 + max(before, default=0))
    return max(lengths, default=0)
