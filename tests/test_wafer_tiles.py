"""One wafer as a mesh of coarse tiles: the same as that mesh, with numbers from the catalogue."""

import math

import pytest
from runs import all_reduce, case_of, times_of, toml

import mrcjax
from mrcjax import hardware
from mrcjax.network.bisection import bisection
from mrcjax.network.inventory import inventory
from mrcjax.spec import SpecError, load_spec

TILES = {"kind": "wafer", "tiles": [4, 3]}


def run(network, collective):
    return mrcjax.run(load_spec(toml(network=network, collective=collective)), brief=True)


@pytest.mark.parametrize("algorithm", ["rings", "hierarchical"])
def test_tiles_are_a_mesh(algorithm):
    rate, work = {"link_rate": "10 GB/s", "latency": "1 us"}, all_reduce(algorithm, "1 MB")
    ours = times_of(case_of({**TILES, **rate}, work))
    mesh = times_of(case_of({"kind": "mesh", "dims": [4, 3], **rate}, work))
    assert float(ours.time_s) == float(mesh.time_s) > 0


def test_edges_and_hops_come_from_the_cores():
    """900,000 cores on a square: 316 links across each of 3 rows of tiles, 237 of 4."""
    core, side = hardware.link("wafer_core"), math.sqrt(900_000)
    network = load_spec(toml(network=TILES, collective=all_reduce("rings"))).network
    along_x, along_y = side / 3 * core.rate_bytes_per_s, side / 4 * core.rate_bytes_per_s
    assert network.port_rates == pytest.approx([along_x] * 2 + [along_y] * 2)
    hop_x, hop_y = side / 4 * core.latency_s, side / 3 * core.latency_s
    assert network.port_latencies == pytest.approx([hop_x] * 2 + [hop_y] * 2)
    # whatever the tiles, the wafer has the same bandwidth in all
    assert core.rate_bytes_per_s * 4 * 900_000 == pytest.approx(214e15 / 8, rel=1e-3)
    assert bisection(network).at_most == pytest.approx(side * core.rate_bytes_per_s)


def test_outcome_says_how_coarse_it_is():
    outcome = run(TILES, all_reduce("ring", "1 MB"))
    assert (outcome.kind, outcome.ranks) == ("wafer", 12)
    assert any("about 75,000 cores" in said for said in outcome.warnings)
    assert outcome.bound_ratio >= 1 - 1e-9


def test_fluid_and_inventory_take_tiles():
    sections = {"network": TILES, "traffic": {"kind": "incast", "size": "1 MB"}}
    spec = load_spec(toml(**sections, engine={"kind": "fluid"}))
    outcome = mrcjax.run(spec, brief=True)
    assert outcome.time_s >= outcome.lower_bound_s > 0
    assert inventory(spec.network).cables == 3 * 3 + 4 * 2 == outcome.num_links / 2


def test_wafers_say_the_same_as_ranks():
    work = all_reduce("in_network", "1 GB")
    assert (
        times_of(case_of({"kind": "wafer", "wafers": 4}, work)).time_s
        == times_of(case_of({"kind": "wafer", "ranks": 4}, work)).time_s
    )


@pytest.mark.parametrize(
    ("keys", "algorithm", "words"),
    [
        ({"tiles": [4, 3], "wafers": 2}, "ring", "each is one rank on SwarmX"),
        ({"tiles": [4, 3], "ranks": 8}, "ring", "is not the product of network.tiles, 12"),
        ({"wafers": 3, "ranks": 8}, "in_network", "is not network.wafers, 3"),
        ({}, "in_network", r"network.ranks is missing.*tiles"),
        ({"tiles": [4, 3], "in_network": True}, "ring", "network.in_network has no meaning"),
        ({"tiles": [4, 3]}, "in_network", "needs switches that reduce"),
        ({"tiles": [4, 3], "fan_out": 2}, "ring", "network.fan_out has no meaning"),
        ({"tiles": [4, 3], "link": "swarmx"}, "ring", "network.link has no meaning"),
        ({"tiles": [4, 3], "load_balancing": "ecmp"}, "ring", "load_balancing has no meaning"),
        ({"tiles": [4, 3], "in_network_efficiency": 0.5}, "ring", "in_network_efficiency has no"),
        ({"tiles": [1000, 1000]}, "ring", "1,000,000 tiles of 900,000 cores"),
        ({"tiles": [4]}, "ring", "network.tiles"),
        ({"wafers": 4}, "ring", "does not go with wafers"),
    ],
)
def test_nonsense_is_refused(keys, algorithm, words):
    with pytest.raises(SpecError, match=words):
        case_of({"kind": "wafer", **keys}, all_reduce(algorithm))
