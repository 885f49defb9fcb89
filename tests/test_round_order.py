"""What `run` says of the order of rounds: nothing where it cannot matter, else what it costs."""

import pytest
from runs import all_reduce, flat, toml

import mrcjax
from mrcjax.spec import load_spec

# 36 ranks, where chunks of several rounds pile up on the one cable between two groups
DRAGONFLY = {
    "kind": "dragonfly", "ranks": 36, "hosts_per_router": 3, "routers_per_group": 3,
    "global_links_per_router": 1, "groups": 4, "link_rate": "50 GB/s", "load_balancing": "ecmp",
}  # fmt: skip


def warnings_of(network, algorithm="direct", **engine) -> list[str]:
    spec = load_spec(toml(network=network, collective=all_reduce(algorithm), engine=engine))
    found = mrcjax.run(spec, brief=True)
    return [text for text in found.warnings if "round by round" in text]


def test_cost_is_measured_where_arrival_order_is_to_be_had():
    (said,) = warnings_of(DRAGONFLY)
    assert said.startswith("local, global: ")
    spec = load_spec(toml(network=DRAGONFLY, collective=all_reduce("direct")))
    by_arrival = load_spec(
        toml(network=DRAGONFLY, collective=all_reduce("direct"), engine={"order": "arrival"})
    )
    times = [mrcjax.run(each, brief=True).time_s for each in (spec, by_arrival)]
    assert f"costs {times[0] / times[1] - 1:.1%} here" in said
    assert f"it is {times[1]:.6g} s" in said


def test_cost_is_bounded_where_it_is_not(monkeypatch):
    monkeypatch.setattr("mrcjax.round_order.MOST_SENDS", 10)
    (said,) = warnings_of(DRAGONFLY)
    assert "was not computed" in said
    assert 'engine.order = "arrival" tells more' in said


@pytest.mark.parametrize(
    ("network", "algorithm", "engine"),
    [
        (flat(5), "ring", {}),  # no cables
        (DRAGONFLY, "direct", {"order": "arrival"}),
        (DRAGONFLY, "direct", {"kind": "fluid"}),
        (DRAGONFLY, "ring", {}),  # at its bound
    ],
)
def test_nothing_is_said_where_it_costs_nothing(network, algorithm, engine):
    assert not warnings_of(network, algorithm, **engine)
