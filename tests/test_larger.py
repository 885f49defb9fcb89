"""Cases laid into larger arrays: the same numbers, bit for bit, by one program for all sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mrcjax.case import build
from mrcjax.emulation import inputs_of, structure_of
from mrcjax.engine import emulate
from mrcjax.engine.maxplus import move
from mrcjax.larger import kin, lay
from mrcjax.spec import load_spec

RAILS = 'kind = "flat_rails"\nrails = 3\nrail_rate = ["400 Gbit/s", "200 Gbit/s", "100 Gbit/s"]\n'
TREE = 'kind = "fat_tree"\nradix = 16\nlink_rate = "400 Gbit/s"\n'
NODES = 'node_size = 4\nnode_rate = "450 GB/s"\n'
KINDS = {
    "rails": RAILS,
    "reducers": RAILS + 'reduction_rate = "100 GB/s"\n',
    "rails, nodes": RAILS + NODES,
    "one rail, nodes": 'kind = "flat_rails"\nrails = 1\nrail_rate = "400 Gbit/s"\n' + NODES,
    "rails, lanes of a port": RAILS + "channels = 7\n",
    "rails, few lanes": RAILS + "channels = 2\n",
    "trunks": TREE,
    "trunks, nodes by rail": TREE + NODES + 'placement = "rail"\n',
    "trunks of three tiers": TREE.replace("16", "4") + "tiers = 3\noversubscription = [1, 3]\n",
    "places": TREE + 'load_balancing = "d_mod_k"\n',
    "hashes": TREE + 'load_balancing = "ecmp"\n',
    "two NICs": TREE + "nics = 2\n",
    "planes": 'kind = "mrc_planes"\nplanes = 2\nplane_rate = "100 Gbit/s"\nradix = 32\npaths = 4\n',
    "one domain": 'kind = "nvl"\n',
    "DGX": 'kind = "dgx"\nlink_rate = "400 Gbit/s"\n',
}


def inputs(network: str, ranks: int, algorithm: str, faults: str = "", more: str = ""):
    case = build(
        load_spec(
            f"[network]\n{network}ranks = {ranks}\nlatency = '500 ns'\n"
            f'[collective]\nkind = "all_reduce"\n{algorithm}\nsize = "16 MB"\n'
            f"[faults]\n{faults}\n[engine]\n{more}\n"
        ),
        known={},
    )
    return inputs_of(case), case.config


run = jax.jit(emulate, static_argnames="config")


def assert_the_same(own, config, larger):
    there, laid = lay(own, larger)
    alone, found = run(*own, config=config), laid.own(run(*there, config=config))
    for field in ("time_s", "finish_s", "link_bytes"):
        one, other = (np.asarray(getattr(times, field)) for times in (alone, found))
        np.testing.assert_array_equal(one, other, err_msg=field)
    assert float(alone.time_s) > 0


DIRECT, WHOLE, RING = (
    'algorithm = "direct"', 'algorithm = "direct"\nstripe = false', 'algorithm = "ring"'
)  # fmt: skip
SLICES = 'algorithm = "hierarchical"\nbetween = "ring"'


def slowly(*cases):
    """The same kinds of case over again, each a compilation or two: run with `-m slow`."""
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(
    ("network", "algorithm", "sizes", "most"),
    [
        ("rails", DIRECT, (2, 3, 40), 64),
        ("rails", RING, (2, 100, 300), 331),  # the last ones skip rounds
        ("rails, nodes", SLICES, (8, 28), 40),
        ("rails, lanes of a port", WHOLE, (2, 17), 30),
        ("trunks", DIRECT, (10, 30), 40),
        ("hashes", DIRECT, (17, 24), 31),
        ("one domain", DIRECT, (4, 7, 60), 72),
        *slowly(
            ("rails", WHOLE, (3, 17), 64),
            ("rails", DIRECT + "\nelement_bytes = 4", (3, 41), 43),
            ("rails", "group_size = 6", (12, 30), 36),
            ("rails", "group_size = 6\ngroup_stride = 2", (24, 36), 48),
            ("rails", WHOLE + "\nchunks = 3", (3, 17), 23),
            ("rails, nodes", RING, (8, 28), 40),
            ("rails, nodes", SLICES.replace("ring", "direct"), (8, 28), 40),
            ("rails, nodes", SLICES + "\nchunks = 4", (8, 20), 24),
            ("rails, nodes", DIRECT, (5, 22), 23),
            ("rails, lanes of a port", DIRECT, (2, 17), 30),
            ("rails, few lanes", DIRECT, (2, 17), 30),
            ("trunks", WHOLE, (10, 30), 40),
            ("trunks", RING, (10, 100), 128),
            ("trunks, nodes by rail", RING, (20, 40), 48),
            ("trunks, nodes by rail", SLICES, (20, 40), 48),
            ("trunks of three tiers", DIRECT, (13, 19), 22),
            ("places", DIRECT, (10, 30), 40),
            ("two NICs", DIRECT, (10, 30), 40),
            ("planes", DIRECT, (33, 37), 43),
            ("DGX", SLICES, (24, 40), 64),
        ),
    ],
)
def test_a_laid_case_gives_its_own_numbers(network, algorithm, sizes, most):
    larger, config = inputs(KINDS[network], most, algorithm)
    common = kin(larger, config)
    assert common is not None
    structures = set()
    for ranks in (*sizes, most):
        own, config = inputs(KINDS[network], ranks, algorithm)
        assert kin(own, config) == common, ranks
        assert_the_same(own, config, larger)
        structures.add(structure_of(lay(own, larger)[0], config))
    assert len(structures) == 1


IDLE_DOWN = 'links = [{ match = "rank 1 egress rail 2", down = true }]'
ALMOST = 'links = [{ match = "rank 5 egress *", rate = 0.999999999 }]'
PORT_DOWN = 'links = [{ match = "rank 1 egress rail 2", down = true }]\nreroute = "spread"'
NIC_DOWN = 'links = [{ match = "rank 1 egress nic 0", down = true }]\nreroute = "spread"'
CABLE_DOWN = 'links = [{ match = "leaf 0 up cable 1", down = true }]\nreroute = "spread"'


@pytest.mark.parametrize(
    ("network", "algorithm", "faults", "more", "sizes", "most"),
    [
        ("rails", DIRECT, "", 'switching = "store_and_forward"', (3, 17), 20),
        ("reducers", RING, "", "", (3, 17), 20),
        ("rails", WHOLE, IDLE_DOWN, "", (2, 3), 4),  # 3 ranks have no use for the third rail
        ("rails", DIRECT, PORT_DOWN, "", (3, 17), 20),
        *slowly(
            ("rails", DIRECT, PORT_DOWN.replace("down = true", "rate = 0.3"), "", (3, 17), 20),
            ("rails", RING, 'late = [{ rank = 2, by = "50 us" }]', "", (3, 17), 20),
            ("reducers", WHOLE, "slow = [{ rank = 1, factor = 4 }]", "", (3, 17), 20),
            ("rails", RING, "", "fast_forward = false", (3, 17), 20),
            ("one rail, nodes", SLICES, ALMOST, "", (524,), 600),  # not quite a common growth
            ("rails", WHOLE, PORT_DOWN, "", (3, 8, 17), 20),
            ("rails", DIRECT, PORT_DOWN.replace("spread", "neighbour"), "", (3, 17), 20),
            ("trunks, nodes by rail", DIRECT, NIC_DOWN, "", (12, 20), 24),
            ("hashes", DIRECT, CABLE_DOWN, "", (17, 24), 31),
            ("trunks", DIRECT, "", 'order = "exact"', (10, 17), 20),
            ("rails", DIRECT, PORT_DOWN.replace("down = true", "loss = 0.01"), "", (3, 17), 20),
            ("rails", DIRECT, "", 'precision = "float32"', (3, 17), 20),
        ),
    ],
)  # fmt: skip
def test_so_it_does_with_damage_and_by_other_rules(network, algorithm, faults, more, sizes, most):
    larger, config = inputs(KINDS[network], most, algorithm, faults, more)
    for ranks in sizes:
        own, config = inputs(KINDS[network], ranks, algorithm, faults, more)
        assert kin(own, config) == kin(larger, config) != None  # noqa: E711
        assert_the_same(own, config, larger)


@pytest.mark.parametrize(
    ("one", "other", "algorithm"),
    [
        ((RAILS, 24), (RAILS.replace("3", "4").replace('"100 Gbit/s"]', '"1 Gbit/s", "1 Gbit/s"]'), 32), DIRECT),  # noqa: E501
        ((RAILS, 24), (RAILS, 48), 'algorithm = "direct"\ngroup_size = 24'),  # one group or more
        ((RAILS + NODES, 340), (RAILS + NODES, 344), RING),  # no more sorted, see `rule_of_many`
        ((TREE, 8), (TREE, 40), DIRECT),  # one leaf has no links up
        ((TREE.replace("16", "8"), 31), (TREE, 32), DIRECT),  # more leaves, of fewer ranks
        ((KINDS["hashes"], 17), (KINDS["hashes"], 40), DIRECT),  # more spines
    ],
)  # fmt: skip
def test_what_would_come_out_otherwise_is_not_laid(one, other, algorithm):
    kins = [kin(*inputs(*case, algorithm)) for case in (one, other)]
    assert kins[0] is None or kins[0] != kins[1]


def test_move_among_some_positions_is_a_permutation_of_those():
    x = jnp.arange(48.0).reshape(2, 24)
    for size in range(1, 7):
        for layout in ((1, 6, 4), (4, 6, 1), (2, 6, 2)):
            blocks, _, stride = layout
            shift = np.asarray([size + 1, -2])
            moved = np.asarray(move(x, jnp.asarray(shift), layout, jnp.asarray(size)))
            for lane in range(2):
                grid = np.asarray(x[lane]).reshape(blocks, 6, stride)
                turned = np.roll(grid[:, :size], shift[lane], axis=1)
                expected = np.concatenate([turned, grid[:, size:]], axis=1)
                np.testing.assert_array_equal(moved[lane], expected.reshape(-1))
