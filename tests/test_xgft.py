"""D-mod-k routes on fat trees: link by link as in SimGrid, and rules that hold on any tree."""

import json
from pathlib import Path

import numpy as np
import pytest

from mrcjax.network.xgft import d_mod_k_routes, fat_tree_shape
from mrcjax.units import SpecError

CASES = Path(__file__).parents[2] / "shared" / "cases" / "simgrid"
SHAPES = ["3;2,2,4;1,2,2;1,1,1", "3;4,2,4;1,2,2;1,1,1", "2;4,3;2,3;1,1", "1;5;2;1", "2;3,4;1,3;1,1"]


def cable_of(shape, link):
    """(number of the cable among all, whether up) of one of our links."""
    before = 0
    for level in range(1, len(shape.children) + 1):
        cables = shape.cables(level)
        if link < 2 * cables:
            return before + link % cables, link < cables
        link, before = link - 2 * cables, before + cables
    raise AssertionError("no such link")


def test_routes_are_those_of_simgrid():
    """Its names end with the number of the cable and UP or DOWN."""
    paths = sorted(CASES.glob("*fattree*.json"))
    if not paths:
        pytest.skip("no reference cases here")
    for path in paths:
        case = json.loads(path.read_text())
        shape = fat_tree_shape(case["platform"].split(":")[1])
        flows = case["flows"]
        routes = d_mod_k_routes(
            shape, [flow["src"] for flow in flows], [flow["dst"] for flow in flows]
        )
        for flow, route in zip(flows, routes, strict=True):
            names = [case["link_names"][link].split("_")[-2:] for link in flow["route"]]
            theirs = [(int(number), way == "UP") for number, way in names]
            assert [cable_of(shape, link) for link in route if link >= 0] == theirs


def ends_of(shape):
    """(level, lower node, upper node) of every cable, from the labels of the switches."""
    ends = []
    for level in range(1, len(shape.children) + 1):
        width = int(np.prod(shape.parents[: level - 1]))
        w, m = shape.parents[level - 1], shape.children[level - 1]
        for node in range(shape.switches(level - 1)):
            subtree, chosen = divmod(node, width)
            for port in range(w):
                upper = subtree // m * width * w + chosen + width * port
                ends.append((level, node, upper))
    return ends


@pytest.mark.parametrize("text", SHAPES)
def test_every_route_leads_from_its_source_to_its_destination(text):
    shape = fat_tree_shape(text)
    ends = ends_of(shape)
    src, dst = (x.ravel() for x in np.meshgrid(*[np.arange(shape.hosts)] * 2))
    routes = d_mod_k_routes(shape, src, dst)
    assert routes.max(initial=-1) < shape.num_links
    for s, d, route in zip(src, dst, routes, strict=True):
        node = (0, s)
        cables = [cable_of(shape, link) for link in route if link >= 0]
        for cable, is_up in cables:
            level, lower, upper = ends[cable]
            below, above = (level - 1, lower), (level, upper)
            assert node == (below if is_up else above)
            node = above if is_up else below
        assert node == (0, d)
        assert (not cables) == (s == d)


def test_counts():
    shape = fat_tree_shape("3;8,8,16;1,8,8;1,1,1")
    assert shape.hosts == 1024
    assert [shape.switches(level) for level in range(4)] == [1024, 128, 128, 64]
    assert shape.num_links == 2 * 3 * 1024


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3;2,2;1,2;1,1", "L numbers"),
        ("2;2,2;1,2", "L;m1"),
        ("2;2,x;1,2;1,1", "L;m1"),
        ("2;2,0;1,2;1,1", "above zero"),
        ("2;2,2;1,2;1,2", "parallel cables"),
    ],
)
def test_refusals(text, words):
    with pytest.raises(SpecError, match=words):
        fat_tree_shape(text)
