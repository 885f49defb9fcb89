"""Chunks of a pipeline go through the same phases: found as repeats, timed as if written out."""

from dataclasses import replace

import numpy as np
import pytest
from runs import all_reduce, case_of, flat, timed, times_of, with_random_numbers

from mrcjax.collective import Phase
from mrcjax.emulation import plain_schedule
from mrcjax.engine.repeats import repeated

NODE = {"node_size": 2, "node_rate": "200 GB/s"}
TORUS = {"kind": "torus", "dims": [2, 3], "link_rate": "100 GB/s"}
RINGS = {"between": "ring"}


def phase(name: str, after: int) -> Phase:
    return Phase(name, "network", 1, ord(name), (1, 8, 1), after=after)


def spelled(text: str, afters: list[int]) -> list[tuple[int, int, int]]:
    phases = tuple(phase(name, after) for name, after in zip(text, afters, strict=True))
    return repeated(phases)


def test_periods_are_found():
    assert spelled("abababab", [-1, 0, -1, 2, -1, 4, -1, 6]) == [(0, 2, 4)]
    assert spelled("cababab", [-1, -1, 1, -1, 3, -1, 5]) == [(0, 1, 1), (1, 2, 3)]
    assert spelled("abababc", [-1, 0, -1, 2, -1, 4, 5]) == [(0, 2, 3), (6, 1, 1)]


@pytest.mark.parametrize(
    ("text", "afters"),
    [
        ("abab", [-1, 0, -1, 2]),  # twice is not worth it
        ("ababab", [-1, 0, -1, 0, -1, 0]),  # all wait for one and the same
        ("ababab", [-1, 0, -1, 2, 3, 4]),  # the third a waits, the others do not
        ("ababac", [-1, 0, -1, 2, -1, 4]),
    ],
)
def test_what_does_not_repeat_is_left_alone(text, afters):
    assert spelled(text, afters) == [(0, len(text), 1)]


def test_a_period_that_is_awaited_later_is_first_or_last():
    afters = [-1, 0, -1, 2, -1, 4, -1, 6]
    assert spelled("ababababc", [*afters, 3]) == [(0, 2, 1), (2, 2, 3), (8, 1, 1)]
    assert spelled("ababababc", [*afters, 5]) == [(0, 2, 3), (6, 3, 1)]
    assert spelled("ababababc", [*afters, 7]) == [(0, 2, 4), (8, 1, 1)]
    assert spelled("ababababc", [*afters, 1]) == [(0, 2, 4), (8, 1, 1)]


@pytest.mark.parametrize(
    ("network", "keys"),
    [
        (flat(4, 1, **NODE), {"chunks": 5}),
        pytest.param(flat(6, 2, **NODE), {"chunks": 6, **RINGS}, marks=pytest.mark.slow),
        pytest.param(TORUS, {"chunks": 6, **RINGS}, marks=pytest.mark.slow),
    ],
)
def test_repeated_phases_take_the_same_time_as_written_out(network, keys):
    case = case_of(network, all_reduce("hierarchical", "10 MB", **keys))
    folded = replace(
        plain_schedule(case), kind=case.schedule.kind, algorithm=case.schedule.algorithm
    )
    assert any(repeats > 1 for _, _, repeats in repeated(folded.phases))
    assert all(repeats == 1 for _, _, repeats in repeated(case.schedule.phases))
    params = with_random_numbers(case, 1)
    short = timed(params, case.network, folded, config=case.config)
    long = times_of(case, params)
    np.testing.assert_allclose(short.finish_s, long.finish_s, rtol=1e-12)
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-12)
