"""Every built-in schedule does what its collective promises, moved with real data.

The pieces of a send are the bytes its chunk stands for, cut into elements; the executor hands
out data at the earliest moment the dependencies of a send allow.
"""

from dataclasses import replace

import numpy as np
import pytest
from oracle.algorithms import groups_of
from oracle.executor import WrongResult, check, execute
from runs import all_reduce, case_of, exact_waits, flat, sends_of, times_of

from mrcjax.bound import lower_bounds
from mrcjax.collective import closed_form, table_schedule
from mrcjax.spec import SpecError

NODE = {"node_size": 4, "node_rate": "200 GB/s"}
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


def wired(*reach, **more):
    ranks = int(np.prod(reach))
    return {"kind": "flat_rails", "ranks": ranks, "rail_rate": "50 GB/s", "reach": reach, **more}


def section(kind, algorithm, size, **more):
    return {"kind": kind, "algorithm": algorithm, "size": f"{size} B", **more}


def in_elements(case, element_bytes):
    """Write the sends of a case with pieces in elements instead of bytes."""
    sends = []
    for send in sends_of(case):
        ((start, size),) = send.pieces
        piece = tuple(round(float(x) / element_bytes, 6) for x in (start, size))
        assert all(x == int(x) for x in piece), "choose a size whose chunks are whole elements"
        sends.append(replace(send, pieces=(tuple(int(x) for x in piece),)))
    return sends


def verify(case, change=lambda sends: sends):
    spec = case.spec.collective
    element_bytes = spec.element_bytes or 1
    ranks = case.network.ranks
    groups = groups_of(ranks, spec.group_size or ranks, spec.group_stride)
    with exact_waits():
        sends = change(in_elements(case, element_bytes))
        check(spec.kind, sends, ranks, int(spec.size) // element_bytes, groups)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [2, 3, 5, 7])
def test_direct(kind, ranks):
    for rails in (1, 3):
        verify(case_of(flat(ranks, rails), section(kind, "direct", ranks * 6)))
        verify(case_of(flat(ranks, rails), section(kind, "direct", ranks * 6, stripe=True)))


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("ranks", [2, 3, 5, 7])
def test_ring(kind, ranks):
    for rails in (1, 3):
        verify(case_of(flat(ranks, rails), section(kind, "ring", ranks * 6)))


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
@pytest.mark.parametrize("channels", [2, 5])
def test_channels_need_not_be_ports(algorithm, channels):
    network = flat(5, 3, channels=channels)
    verify(case_of(network, section("all_reduce", algorithm, 5 * channels)))


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_groups(algorithm, size, stride):
    for kind in KINDS[:3]:
        keys = {"group_size": size, "group_stride": stride}
        verify(case_of(flat(24, 2), section(kind, algorithm, 24, **keys)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 4, 7, 22])
def test_whole_elements(kind, size):
    """Seven ranks: none, fewer elements than ranks, one each, and a remainder."""
    keys = {"element_bytes": 2}
    verify(case_of(flat(7, 3), section(kind, "direct", 2 * size, **keys)))
    verify(case_of(flat(7, 3), section(kind, "direct", 2 * size, stripe=True, **keys)))
    if kind != "all_to_all":
        verify(case_of(flat(7, 3), section(kind, "ring", 2 * size, **keys)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reach", [(3, 4), (2, 3, 2), (5,)])
def test_direct_wiring(kind, reach):
    network = wired(*reach)
    verify(case_of(network, section(kind, "direct", network["ranks"])))
    if kind != "all_to_all":
        verify(case_of(network, section(kind, "ring", network["ranks"])))
        channels = {**network, "channels": 2}
        verify(case_of(channels, section(kind, "ring", 2 * network["ranks"])))


@pytest.mark.parametrize("kind", KINDS)
def test_nodes(kind):
    network = flat(12, 2, **NODE)
    verify(case_of(network, section(kind, "direct", 12)))
    verify(case_of(network, section(kind, "direct", 8, group_size=2, group_stride=2)))
    if kind != "all_to_all":
        verify(case_of(network, section(kind, "ring", 12 * 8)))
        verify(case_of(network, section(kind, "ring", 12, group_size=6, group_stride=2)))


@pytest.mark.parametrize("between", ["direct", "ring"])
@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_hierarchical(between, chunks, nodes):
    keys = {"between": between, "chunks": chunks}
    network = flat(4 * nodes, 2, **NODE)
    verify(case_of(network, section("all_reduce", "hierarchical", 4 * nodes * chunks * 2, **keys)))
    fewer = section("all_reduce", "hierarchical", 10, element_bytes=2, **keys)
    verify(case_of(network, fewer) if chunks == 1 else as_whole(network, fewer))


def as_whole(network, keys):
    return case_of(network, {**keys, "size": "334 B"})


def torus(*dims, **more):
    return {"kind": "torus", "dims": list(dims), "link_rate": "100 GB/s", **more}


GRIDS = [(3,), (2, 3), (5, 2, 3), (1, 3, 1), (7,)]


@pytest.mark.parametrize("dims", GRIDS)
def test_rings_round_all_dimensions(dims):
    lanes = 2 * sum(size > 1 for size in dims)
    size = lanes * int(np.prod(dims))
    verify(case_of(torus(*dims), section("all_reduce", "rings", size)))
    verify(case_of(torus(*dims), section("all_reduce", "rings", 2 * 37, element_bytes=2)))


def test_rings_need_no_wrap_to_be_right():
    mesh = {"kind": "mesh", "dims": [3, 4], "link_rate": "100 GB/s"}
    verify(case_of(mesh, section("all_reduce", "rings", 4 * 12)))


@pytest.mark.parametrize("dims", GRIDS)
@pytest.mark.parametrize("between", ["ring", "direct"])
def test_hierarchical_over_dimensions(dims, between):
    """Along the dimensions of a torus, and of a switched network by strides."""
    ranks = int(np.prod(dims))
    for chunks in (1, 3):
        keys = {"between": between, "chunks": chunks}
        size = ranks * chunks
        verify(case_of(torus(*dims), section("all_reduce", "hierarchical", size, **keys)))
        keys["dimensions"] = list(dims)
        verify(case_of(flat(ranks, 2), section("all_reduce", "hierarchical", 2 * size, **keys)))


@pytest.mark.parametrize(
    ("network", "keys"),
    [
        (flat(24, 2), {"dimensions": [2, 3], "group_size": 6, "group_stride": 2}),
        (flat(24, 2), {"dimensions": [12], "group_size": 12, "between": ["ring"]}),
        (
            flat(24, 2, **NODE),
            {"dimensions": [2, 2, 6], "between": ["direct", "ring", "ring"], "chunks": 2},
        ),
        (torus(4, 6), {"dimensions": [8, 3], "between": "ring"}),
        (torus(4, 3), {"between": ["ring", "direct"]}),
        (wired(3, 4), {"dimensions": [3, 4], "between": ["ring", "direct"]}),
    ],
)
def test_dimensions_in_groups_nodes_and_across_a_grid(network, keys):
    verify(case_of(network, section("all_reduce", "hierarchical", 96, **keys)))


@pytest.mark.parametrize(
    ("network", "keys", "words"),
    [
        (flat(8, 2), {"dimensions": [2, 3]}, ("collective.dimensions", "6 ranks", "8")),
        (flat(8, 2), {}, ("collective.algorithm", "node_size", "dimensions")),
        (flat(8, 2), {"dimensions": [8], "group_size": 4}, ("dimensions", "group_size = 4")),
        (flat(8, 2), {"dimensions": [2, 4], "between": ["ring"]}, ("between", "2 dimensions")),
        (torus(2, 4), {"between": ["ring"]}, ("collective.between", "2 dimensions")),
        (flat(12, 2, **NODE), {"between": ["ring"]}, ("collective.between", "dimensions")),
        (flat(24, 2, **NODE), {"dimensions": [6, 4]}, ("dimensions", "partly in nodes")),
        (flat(8, 2), {"algorithm": "rings"}, ("collective.algorithm", "torus")),
        (torus(2, 4), {"algorithm": "rings", "chunks": 2}, ("chunks", "hierarchical")),
        (flat(8, 2, **NODE), {"kind": "all_gather"}, ("algorithm", "all_gather", "dimensions")),
        (torus(2, 4), {"algorithm": "rings", "group_size": 4}, ("group_size", "whole dimensions")),
        (
            torus(2, 4),
            {"algorithm": "rings", "group_size": 2, "group_stride": 2},
            ("group_size", "whole dimensions"),
        ),
        (
            torus(2, 4),
            {"algorithm": "rings", "kind": "all_gather", "element_bytes": 2},
            ("element_bytes", "all_gather"),
        ),
        (flat(8, 2), {"algorithm": "ring", "dimensions": [8]}, ("dimensions", "hierarchical")),
    ],
)
def test_impossible_dimensions_are_refused(network, keys, words):
    keys = {**section("all_reduce", "hierarchical", 96), **keys}
    with pytest.raises(SpecError) as error:
        case_of(network, keys)
    for word in words:
        assert word in str(error.value)


HALVES = [
    (torus(3, 4), {"algorithm": "rings"}),
    (torus(3, 2, 2), {"algorithm": "rings", "group_size": 4, "group_stride": 3}),
    (torus(4, 3), {"dimensions": [4, 3], "between": ["ring", "direct"]}),
    (flat(12, 2), {"dimensions": [2, 3], "group_size": 6, "group_stride": 2, "between": "ring"}),
    (flat(24, 2, **NODE), {"dimensions": [2, 6], "group_size": 12, "group_stride": 2, "chunks": 2}),
]


@pytest.mark.parametrize(("network", "keys"), HALVES)
def test_a_reduce_scatter_leaves_what_an_all_gather_starts_from(network, keys):
    """Every rank ends with sums of blocks that tile the buffer, and those alone are enough."""
    keys = {**section("", "hierarchical", 288), **keys}
    scatter, gather = (
        case_of(network, {**keys, "kind": kind}) for kind in ("reduce_scatter", "all_gather")
    )
    verify(case_of(network, {**keys, "kind": "all_reduce"}))
    ranks = scatter.network.ranks
    rng = np.random.default_rng(0)
    inputs = [rng.integers(1, 2**40, 288) for _ in range(ranks)]
    with exact_waits():
        sums = execute(in_elements(scatter, 1), inputs)
        sends = in_elements(gather, 1)
    own = np.zeros((ranks, 288), bool)
    starts = {number for number, p in enumerate(gather.schedule.phases) if p.after < 0}
    first = [s for s in sends if s.phase in starts and s.round == 0]
    for send in first:
        ((start, count),) = send.pieces
        own[send.src, start : start + count] = True
    for members in groups_of(ranks, keys.get("group_size", ranks), keys.get("group_stride", 1)):
        assert (own[members].sum(axis=0) == 1).all()
        total = np.sum([inputs[rank] for rank in members], axis=0)
        for rank in members:
            assert (sums[rank] == total)[own[rank]].all()
        held = [np.where(own[rank], total, -rank - 1) for rank in range(ranks)]
        with exact_waits():
            ended = execute(sends, held)
        assert all((ended[rank] == total).all() for rank in members)


@pytest.mark.parametrize(("network", "keys"), HALVES)
def test_both_halves_take_the_time_of_the_all_reduce_where_nothing_is_hidden(network, keys):
    keys = {**section("", "hierarchical", 288e6), **keys, "chunks": 1}
    kinds = ("all_reduce", "reduce_scatter", "all_gather")
    cases = [case_of(network, {**keys, "kind": kind}) for kind in kinds]
    whole, scatter, gather = (float(times_of(case).time_s) for case in cases)
    assert scatter + gather == pytest.approx(whole, rel=1e-9)
    for case in cases:
        assert float(times_of(case).time_s) >= max(lower_bounds(case).values()) * (1 - 1e-9)


# ---- negative controls


def test_a_wrong_chunk_is_noticed():
    case = case_of(flat(5, 2), section("all_reduce", "ring", 50))

    def corrupt(sends):
        at = next(i for i, s in enumerate(sends) if s.phase == 1 and s.round == 2)
        return [*sends[:at], replace(sends[at], pieces=sends[at - 1].pieces), *sends[at + 1 :]]

    verify(case)
    with pytest.raises(WrongResult):
        verify(case, corrupt)


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_a_missing_wait_is_noticed(algorithm):
    case = case_of(flat(5, 2), section("all_reduce", algorithm, 50))
    with pytest.raises(WrongResult):
        verify(case, lambda sends: [replace(s, waits=()) for s in sends])


def test_an_operation_in_place_of_another_is_noticed():
    case = case_of(flat(5, 2), section("reduce_scatter", "direct", 50))
    with pytest.raises(WrongResult):
        verify(case, lambda sends: [replace(s, op="copy") for s in sends])


# ---- sizes and shapes of what is built


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_shards_differ_by_at_most_one_element_and_sum_to_the_buffer(algorithm):
    case = case_of(flat(7, 3), section("all_reduce", algorithm, 4 * 23, element_bytes=4))
    (chunks,) = case.program.chunks
    elements = np.broadcast_to(chunks.bytes, chunks.start_bytes.shape) / 4
    shards = elements.sum(axis=0) if algorithm == "ring" else elements[0]
    assert sorted(set(shards)) == [3, 4]
    assert shards.sum() == 23
    assert elements.max() - elements.min() <= 1


def test_one_rank_has_nothing_to_do():
    case = case_of(flat(1, 3), all_reduce("ring"))
    assert case.schedule.phases == ()
    assert case.program.chunks == ()


def test_direct_wiring_carries_equal_loads_on_the_ports_of_a_digit():
    """Relays included; every peer is dealt to one lane, whose port is the first hop."""
    case = case_of(wired(4, 2), all_reduce("direct"))
    (offsets,) = case.schedule.offsets
    assert sorted(np.asarray(offsets)[np.asarray(offsets) > 0]) == list(range(1, 8))
    load = np.asarray(times_of(case).link_bytes).reshape(4, 8) / (2 * 100e6 / 8)
    np.testing.assert_allclose(load, [[2] * 8] * 3 + [[4] * 8])


@pytest.mark.parametrize(
    ("peer", "bytes_", "needs", "word"),
    [
        ([[[1], [2]]], 1.0, None, "peer must lie"),
        ([[[1], [1]]], 1.0, None, "itself"),
        ([[[1], [0]]], -1.0, None, "negative"),
        ([[[1], [0]]], 1.0, [[[3], [0]]], "needs must be"),
        ([[1, 0]], 1.0, None, "rounds, ranks, lanes"),
    ],
)
def test_impossible_tables_are_refused(peer, bytes_, needs, word):
    needs = None if needs is None else np.asarray(needs)
    with pytest.raises(ValueError, match=word):
        table_schedule(np.asarray(peer), bytes_, needs)


def test_slow_link_form_needs_three_ranks():
    with pytest.raises(ValueError, match="at least 3"):
        closed_form.ring_with_slow_link_s(2, 1e9, 1e9, 1e8, 0.0)
