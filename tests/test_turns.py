"""How many messages come in turn, against a count over all pairs of sends."""

import pytest
from oracle import Send
from oracle.chains import longest_chain
from runs import all_reduce, case_of, flat, is_awaited, sends_of, toml

from mrcjax import run
from mrcjax.collective.turns import messages_in_turn
from mrcjax.spec import load_spec

GRID = {"link_rate": "100 GB/s", "latency": "1 us"}


def torus(*dims, kind="torus", **more):
    return {"kind": kind, "dims": list(dims), **GRID, **more}


def rings(*dims, kind="all_reduce", **more):
    return torus(*dims), all_reduce("rings", kind=kind, **more)


def levels(network, **more):
    return network, all_reduce("hierarchical", "1 MB", between="ring", **more)


NODES = flat(8, 2, node_size=4, node_rate="450 GB/s")
CASES = {
    "rings_on_2_1_3": (*rings(2, 1, 3), 6),
    "rings_on_equal_dimensions": (*rings(3, 3), 8),
    "rings_on_2_3_4": (*rings(2, 3, 4), 12),
    "scatter_on_2_1_3": (*rings(2, 1, 3, kind="reduce_scatter"), 3),
    "rings_in_groups": (*rings(2, 3, 2, group_size=6), 6),
    "ring": (flat(6, 2), all_reduce("ring"), 10),
    "ring_over_nodes": (NODES, all_reduce("ring"), 14),
    "direct": (flat(6, 2), all_reduce("direct"), 2),
    "direct_in_pieces": (flat(6, 2), all_reduce("direct", chunks=3), 2),
    "direct_on_a_torus": (torus(2, 1, 3), all_reduce("direct"), 2),
    "all_to_all": (flat(6, 2), all_reduce("direct", kind="all_to_all"), 1),
    "levels_on_2_1_3": (*levels(torus(2, 1, 3)), 6),
    "levels_in_pieces": (*levels(torus(2, 1, 3), chunks=4), 6),
    "levels_direct_inside": (
        flat(12, 2),
        all_reduce("hierarchical", dimensions=[1, 4, 3], between=["direct", "direct", "ring"]),
        6,
    ),
    "nodes_in_pieces": (*levels(NODES, chunks=3), 4),
    "alone": (flat(1, 2), all_reduce("direct"), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_messages_in_turn_are_the_longest_chain_of_sends(name):
    network, collective, expected = CASES[name]
    case = case_of(network, collective)
    assert messages_in_turn(case.schedule) == expected
    assert longest_chain(sends_of(case), is_awaited) == expected


def test_the_slow_count_itself():
    there = Send(0, 0, 0, 0, 1)
    on = Send(0, 1, 1, 0, 2, needs="channel")
    beside = Send(0, 1, 1, 1, 2, needs="channel")  # on another lane
    last = Send(1, 0, 2, 0, 0, needs="phase")
    assert longest_chain([]) == 0
    assert longest_chain([there, beside]) == 1
    assert longest_chain([last, there, beside, on]) == 3


def test_it_is_what_a_run_says_that_binds():
    network, collective = rings(2, 1, 3, size="60 B")
    outcome = run(load_spec(toml(network=network, collective=collective)))
    assert outcome.binding.name == "6 message latencies in turn"
    assert outcome.time_s == pytest.approx(6e-6, rel=1e-3)
