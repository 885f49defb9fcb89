"""SimGrid's cases from our own families: their flows by our routes, engine fluid.

The dragonfly of SimGrid has one cable per pair of groups, at the router whose number is that of
the other group. Ours deals all global ports of a group to the distances between groups, so that
its four groups have four cables where SimGrid's have three: not the same network. Nor is a fat
tree with switches of different radix, as `k4-2to1`. Both run from given routes in test_fluid_run.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from runs import all_reduce, case_of, times_of, toml

import mrcjax
from mrcjax.network.xgft import d_mod_k_routes, fat_tree_shape
from mrcjax.spec import SpecError, load_spec

CASES = Path(__file__).parents[2] / "shared" / "cases" / "simgrid"
TREE = {"kind": "fat_tree", "tiers": 3, "load_balancing": "d_mod_k"}
TORUS = {"kind": "torus", "dims": [4, 4, 4], "ties": "up"}
SAME = {
    "S3-fattree-k4-1to1-a2a": {**TREE, "ranks": 16, "radix": 4},
    "S3-fattree-k4-1to1-perm": {**TREE, "ranks": 16, "radix": 4},
    "S3-fattree-k8-1to1-perm": {**TREE, "ranks": 128, "radix": 8},
    "S4-torus-4x4x4-nn": TORUS,
    "S4-torus-4x4x4-perm": TORUS,
    "S4-torus-4x4x4-shift": TORUS,
}


def flows_run(folder, network, flows):
    """Run (src, dst, bytes, start in s) on a network; returns the outcome."""
    with (folder / "flows.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["src", "dst", "bytes", "start"])
        rows.writerows([src, dst, size, f"{start!r} s"] for src, dst, size, start in flows)
    traffic = {"kind": "file", "file": "flows.csv"}
    sections = {"network": network, "traffic": traffic, "engine": {"kind": "fluid"}}
    (folder / "spec.toml").write_text(toml(**sections))
    return mrcjax.run(load_spec(folder / "spec.toml"), brief=True)


@pytest.mark.parametrize("name", SAME)
def test_our_routes_give_the_times_of_simgrid(name, tmp_path):
    path = CASES / f"{name}.json"
    if not path.exists():
        pytest.skip("no reference cases here")
    case = json.loads(path.read_text())
    rate, latency = f"{case['link_bandwidth_Bps']} B/s", f"{case['link_latency_s']} s"
    flows = [(f["src"], f["dst"], f["bytes"], f["start_s"]) for f in case["flows"]]
    outcome = flows_run(tmp_path, {**SAME[name], "link_rate": rate, "latency": latency}, flows)
    expected = [flow["finish_s"] for flow in case["flows"]]
    assert outcome.flows.finish_s == pytest.approx(expected, rel=1e-9)


# ---- small ones of our own

SMALL = {
    **TREE, "ranks": 16, "radix": 4, "link_rate": "10 GB/s", "latency": "1 us",
}  # fmt: skip


def test_receivers_alike_modulo_the_uplinks_share_a_cable(tmp_path):
    """From leaf 0 (ranks 0, 1) to ranks 4 and 6: both by cable 0; to 4 and 7: each its own."""
    megabyte = 1e6 / 10e9
    flows = [(0, 4, 1e6, 0.0), (1, 6, 1e6, 0.0)]
    outcome = flows_run(tmp_path, SMALL, flows)
    assert outcome.flows.finish_s == pytest.approx([2 * megabyte + 6e-6] * 2, rel=1e-9)
    used = {outcome.link_name(i) for i in np.flatnonzero(outcome.link_bytes)}
    assert "leaf 0 up cable 0" in used
    assert "leaf 0 up cable 1" not in used
    outcome = flows_run(tmp_path, SMALL, [(0, 4, 1e6, 0.0), (1, 7, 1e6, 0.0)])
    assert outcome.flows.finish_s == pytest.approx([megabyte + 6e-6] * 2, rel=1e-9)


@pytest.mark.parametrize(("ranks", "radix", "text"), [(16, 4, "3;2,2,4;1,2,2;1,1,1")])
def test_links_are_those_of_the_rule(ranks, radix, text):
    """Cable by cable against the routes of generalised fat trees, all pairs."""
    network = case_of({**SMALL, "ranks": ranks, "radix": radix}, all_reduce("direct")).network
    shape = fat_tree_shape(text)
    src, dst = (x.reshape(-1) for x in np.indices((ranks, ranks)))
    zero = np.zeros_like(src)
    inner = np.stack([np.asarray(x) for x in network.fabric.inner(src, dst, zero, zero)], axis=1)
    theirs = d_mod_k_routes(shape, src, dst)[:, 1:-1]
    assert ((inner == network.no_link) == (theirs < 0)).all()
    # one link of ours for one of theirs, both ways round
    pairs = {(int(a), int(b)) for a, b in zip(inner.flat, theirs.flat, strict=True) if b >= 0}
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs) > 0


def test_shifts_meet_nowhere_under_d_mod_k():
    """Direct all-reduce is made of shifts: on a full 1:1 tree no cable is used twice (Zahavi)."""
    by_rule = case_of(SMALL, all_reduce("direct", "16 MB"))
    ideal = case_of({**SMALL, "load_balancing": "ideal"}, all_reduce("direct", "16 MB"))
    assert float(times_of(by_rule).time_s) == pytest.approx(float(times_of(ideal).time_s), rel=1e-2)


def test_a_cable_that_is_down_is_gone_round():
    network, sends = {**SMALL, "tiers": 2, "ranks": 8}, all_reduce("direct", "16 MB")
    healthy = mrcjax.run(load_spec(toml(network=network, collective=sends)), brief=True)
    faults = "links = [{ match = 'leaf 0 up cable 0', rate = 0 }]\nreroute = "
    spec = load_spec(toml(network=network, collective=sends, faults=faults + "'spread'"))
    assert mrcjax.run(spec, brief=True).time_s > 1.2 * healthy.time_s
    spec = load_spec(toml(network=network, collective=sends, faults=faults + "'none'"))
    with pytest.raises(SpecError, match='"leaf 0 up cable 0" is down'):
        mrcjax.run(spec, brief=True)


def test_only_a_tree_has_the_rule():
    with pytest.raises(SpecError, match=r"network.load_balancing"):
        case_of({"kind": "dgx", "ranks": 16, "link": "ethernet_400g", "load_balancing": "d_mod_k"},
                all_reduce("direct"))  # fmt: skip
