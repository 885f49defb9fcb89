"""What fails and lags: closed forms of rerouting, losses and stragglers; names; scenarios."""

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import all_reduce, case_of, flat, timed, toml

from mrcjax import archive, programs
from mrcjax.bound import lower_bounds
from mrcjax.case import Case, numbers
from mrcjax.collective.closed_form import ring_s
from mrcjax.emulation import run
from mrcjax.engine import emulate
from mrcjax.engine.jitter import delays
from mrcjax.faults import Draws
from mrcjax.network import build as build_network
from mrcjax.network.components import find
from mrcjax.report.table import run_text
from mrcjax.spec import FaultsSpec, SpecError, load_spec
from mrcjax.training import step

# most of the time of these tests is compiling
QUICK = {"xla_backend_optimization_level": 0}
SCATTER = {"kind": "reduce_scatter", "size": "1 GB"}
TREE = {"kind": "fat_tree", "link_rate": "50 GB/s", "latency": "1 ns"}
PLANES = {"kind": "mrc_planes", "ranks": 32, "planes": 2, "radix": 8, "plane_rate": "50 GB/s"}


def text_of(network: dict, collective: dict, faults: str = "") -> str:
    return toml(network=network, collective=collective, faults=faults)


def outcome_of(network: dict, collective: dict, faults: str = ""):
    """Run without XLA's optimisation, which takes longer than these runs."""
    return run(load_spec(text_of(network, collective, faults)), brief=True)


def down(name: str, reroute: str = "spread") -> str:
    return f'links = [{{ match = "{name}", down = true }}]\nreroute = "{reroute}"'


# ---- rerouting


def test_one_of_256_uplinks_takes_0_4_percent_of_its_leaf():
    network = {**PLANES, "ranks": 512, "planes": 8, "radix": 512, "load_balancing": "ideal"}
    case = case_of(network, all_reduce("ring"), None, down("plane 0 leaf 1 up cable 17"))
    lost = 1 - np.asarray(case.params.capacity_bytes_per_s) / case.wiring.capacity_bytes_per_s
    (link,) = np.flatnonzero(lost)
    assert case.wiring.link_name(int(link)) == "plane 0 leaf 1 up trunk"
    assert lost[link] == pytest.approx(1 / 256)


NODES = {**TREE, "ranks": 16, "radix": 64, "node_size": 8, "node_rate": "4500 GB/s"}
NODES["node_latency"] = "1 ns"
IN_NODES_S = 2 * 7 / 8 * 1e9 / 4500e9
BETWEEN_NODES_S = 2 * (1e9 / 8 / 2) / 50e9


@pytest.mark.parametrize(("reroute", "factor"), [("spread", 8 / 7), ("neighbour", 2.0)])
def test_a_nic_of_a_node_of_eight_is_down(reroute, factor):
    # github.com/NVIDIA/nccl/issues/2157
    hierarchical = all_reduce("hierarchical", "1 GB")
    outcome = outcome_of(NODES, hierarchical, down("rank 3 nic 0", reroute))
    wanted = IN_NODES_S + factor * BETWEEN_NODES_S
    assert outcome.time_s == pytest.approx(wanted, rel=1e-4)
    assert outcome.time_s >= outcome.schedule_bound_s
    dead = outcome.link_capacity_bytes_per_s == 0
    assert dead.sum() == 2
    assert outcome.link_bytes[dead].sum() == 0


def test_without_rerouting_the_pair_is_named():
    with pytest.raises(SpecError, match=r'rank 3 cannot reach rank 11: "rank 3 egress nic 0" is d'):
        outcome_of(NODES, all_reduce("hierarchical", "1 GB"), down("rank 3 nic 0", "none"))


def test_a_rank_that_is_down_is_named():
    with pytest.raises(SpecError, match="rank 0 cannot reach rank 1: .* no other way is up"):
        outcome_of(flat(9, 4), all_reduce("direct", "9 GB"), down("rank 0"))


@partial(jax.jit, compiler_options=QUICK)
def times_of_capacities(capacities, params, network, schedule):
    def one(capacity):
        return emulate(replace(params, capacity_bytes_per_s=capacity), network, schedule).time_s

    return jax.vmap(one)(capacities)


def times_with_down(case: Case, patterns: list[str]) -> np.ndarray:
    """Completion time with each pattern's links down, one program for all."""
    capacities = np.tile(case.wiring.capacity_bytes_per_s, (len(patterns), 1))
    for row, pattern in zip(capacities, patterns, strict=True):
        row[find(case.wiring, pattern)[0]] = 0
    inputs = case.params, case.network, case.schedule
    return np.asarray(times_of_capacities(jnp.asarray(capacities), *inputs))


@pytest.mark.parametrize(("ranks", "rails"), [(9, 5), (10, 4)])
def test_whole_chunks_are_dealt_to_the_rails_that_are_left(ranks, rails):
    """Each rail of some rank, and each plane: ceil((n - 1) / (R - 1)) chunks a phase, exactly."""
    direct = all_reduce("direct", f"{ranks} GB")
    case = case_of(flat(ranks, rails), direct, None, down("rank 0 rail 0"))
    hit = [f"{what}rail {r}" for r in range(rails) for what in ("", "rank 0 ", "rank 7 ")]
    wanted = 2 * (math.ceil((ranks - 1) / (rails - 1)) * 1e9 / 50e9 + 1e-6)
    np.testing.assert_allclose(times_with_down(case, hit), wanted, rtol=1e-9)


def test_a_striped_shard_is_spread_over_the_other_rails():
    striped = all_reduce("direct", "8 GB", stripe=True)
    case = case_of(flat(8, 4), striped, None, down("rank 0 rail 0"))
    wanted = 2 * 7 / 3 * 1e9 / 50e9
    found = times_with_down(case, ["rank 3 rail 1", "rank 3 egress rail 1", "rail 2"])
    np.testing.assert_allclose(found, wanted, rtol=0.01)


@pytest.mark.parametrize("planes", [8, 4])
def test_a_lost_nic_port_costs_its_share_of_the_rank(planes):
    network = {**PLANES, "ranks": 8, "planes": planes, "load_balancing": "ideal"}
    case = case_of(network, all_reduce("ring", "8 GB"), None, down("rank 0 plane 0"))
    healthy = ring_s(8, planes, 8e9, 50e9, 0.0)
    (found,) = times_with_down(case, ["rank 3 plane 1"])
    assert found == pytest.approx(healthy * planes / (planes - 1), rel=0.01)


@pytest.mark.parametrize("balancing", ["ecmp", "spray"])
def test_cables_that_are_down_carry_nothing_and_nothing_is_lost(balancing):
    paths = {"paths": 8} if balancing == "spray" else {}
    network = {**TREE, "ranks": 8, "radix": 8, "load_balancing": balancing, **paths}
    outcome = outcome_of(network, all_reduce("direct", "8 MB"), down("leaf 0 up cable 1"))
    names = [outcome.link_name(i) for i in range(len(outcome.link_bytes))]
    up = np.asarray([name.startswith("leaf 0 up") for name in names])
    assert outcome.link_bytes[names.index("leaf 0 up cable 1")] == 0
    # 4 ranks send 4 shards of 1 MB to the other leaf, twice
    assert outcome.link_bytes[up].sum() == pytest.approx(2 * 16e6)


def test_a_leaf_cut_off_is_named():
    network = {**TREE, "ranks": 8, "radix": 8}
    with pytest.raises(SpecError, match='rank 3 cannot reach rank 4: "leaf 0 up trunk" is down'):
        outcome_of(network, all_reduce("ring", "8 MB"), down("leaf 0 up cable *"))


def test_derivatives_where_a_rail_is_down():
    case = case_of(flat(4, 2), SCATTER, None, down("rank 1 rail 1"))
    scale = 1 + 0.3 * np.random.default_rng(0).random(case.network.num_links)
    capacity = case.params.capacity_bytes_per_s * scale

    @partial(jax.jit, compiler_options=QUICK)
    @jax.value_and_grad
    def time_and_slope(capacity):
        params = replace(case.params, capacity_bytes_per_s=capacity)
        return emulate(params, case.network, case.schedule, config=case.config).time_s

    _, slope = time_and_slope(capacity)
    assert jnp.isfinite(slope).all()
    assert (slope[capacity == 0] == 0).all()
    step_size = 1e-5 * capacity
    (ahead, _), (behind, _) = (time_and_slope(capacity + s * step_size) for s in (1, -1))
    assert float(slope @ step_size) == pytest.approx(float(ahead - behind) / 2, rel=1e-6)


# ---- losses

ACROSS = {"kind": "reduce_scatter", "size": "2 GB", "group_size": 2, "group_stride": 4}


@pytest.mark.parametrize(
    ("transport", "factor"),
    [
        ("", 0.999**-4),
        (
            'transport = "go_back_n"\nwindow = 108',
            (1 + 107 * (1 - 0.999**4)) / 0.999**4,
        ),
    ],
)
def test_lost_packets_are_sent_again_over_four_hops(transport, factor):
    network = {**TREE, "ranks": 8, "radix": 8, "latency": "0 s"}
    lossy = 'links = [{ match = "*", loss = 1e-3 }]\n' + transport
    outcome = outcome_of(network, ACROSS, lossy)
    assert outcome.time_s == pytest.approx(1e9 / 50e9 * factor, rel=1e-9)
    assert outcome.time_s >= outcome.lower_bound_s * (1 - 1e-12)
    # the last hop carries what only it loses, the first what all of them do
    carried = {outcome.link_name(i): b for i, b in enumerate(outcome.link_bytes)}
    kept = carried["rank 4 ingress nic 0"] / carried["rank 0 egress nic 0"]
    assert kept == pytest.approx(0.999**3)


def test_no_loss_changes_nothing():
    case = case_of(flat(4), all_reduce("ring"), None, 'links = [{ match = "*", loss = 0.0 }]')
    plain = case_of(flat(4), all_reduce("ring"))
    assert case.params.loss is None
    assert case.network == plain.network


# ---- stragglers


def test_a_late_rank_delays_a_ring_by_its_delay_wherever_it_is():
    case = case_of(flat(16, latency="2 us", rate="100 GB/s"), all_reduce("ring", "1 GB"))
    late_s = jnp.concatenate([jnp.zeros((1, 16)), 3e-3 * jnp.eye(16)])

    @jax.jit
    @jax.vmap
    def time_s(late_s):
        return emulate(replace(case.params, late_s=late_s), case.network, case.schedule).time_s

    found = time_s(late_s)
    np.testing.assert_allclose(found[1:] - found[0], 3e-3, rtol=1e-9)


def test_the_latest_of_16384_normal_starts():
    jitter = '[{ at = "start", kind = "normal", mean = "1 ms", sigma = "100 us" }]'
    text = text_of(flat(16384), all_reduce("ring"), f"jitter = {jitter}\nscenarios = 200")
    spec = load_spec(text)
    draws = Draws(spec.faults, build_network(spec.network))
    latest = [draws.scenario(s).late_s.max() for s in range(200)]
    assert (np.mean(latest) - 1e-3) / 1e-4 == pytest.approx(3.97, abs=0.08)


@pytest.mark.parametrize("kind", ["normal", "exponential", "log_normal"])
def test_delays_of_rounds_have_their_mean_and_deviation(kind):
    sigma = "" if kind == "exponential" else ', sigma = "20 us"'
    jitter = f'jitter = [{{ at = "round", kind = "{kind}", mean = "100 us"{sigma} }}]'
    case = case_of(flat(2), {"kind": "reduce_scatter", "size": "2 GB"}, None, jitter)
    assert case.params.jitter is not None
    drawn = np.asarray(delays(case.params.jitter, 0, 100_000))
    assert drawn.mean() == pytest.approx(100e-6, rel=0.02)
    assert drawn.std() == pytest.approx(100e-6 if sigma == "" else 20e-6, rel=0.02)
    assert not np.array_equal(drawn, np.asarray(delays(case.params.jitter, 1, 100_000)))


def test_a_send_waits_for_its_delay():
    jitter = 'jitter = [{ at = "round", mean = "10 ms", seed = 4 }]\nscenarios = 3'
    outcome = outcome_of(flat(2), {"kind": "reduce_scatter", "size": "2 GB"}, jitter)
    plain_s = 1e9 / 50e9 + 1e-6
    delay_s = outcome.time_s - plain_s
    assert delay_s > 0
    assert outcome.scenarios is not None
    assert outcome.scenarios.times_s[0] == pytest.approx(outcome.time_s, rel=1e-12)
    assert len(set(outcome.scenarios.times_s)) == 3


def test_a_slow_rank_reduces_slowly():
    network = flat(2, reduction_rate="100 GB/s")
    slow = "slow = [{ rank = 1, factor = 3.0 }]"
    outcome = outcome_of(network, {"kind": "reduce_scatter", "size": "2 GB"}, slow)
    np.testing.assert_allclose(outcome.finish_s, 1e9 / 50e9 + 1e-6 + np.array([1, 3]) * 1e9 / 100e9)


def test_a_training_step_waits_for_its_slow_rank():
    spec = load_spec(text_of(flat(64, 8), all_reduce("direct"), "") + "\n[training]\n")
    assert spec.training is not None
    usual, slow = (step(spec.training, 64, 1e-3, 1e-3, slowest) for slowest in (1.0, 1.25))
    assert slow.computing_s == pytest.approx(1.25 * usual.computing_s)
    assert slow.step_s > usual.step_s
    assert slow.utilisation < usual.utilisation


# ---- scenarios

RANDOM = 'random = [{{ what = "port", count = 3, seed = {seed} }}]\nreroute = "spread"\n'


def test_scenarios_are_the_runs_of_their_seeds(tmp_path):
    network, direct = flat(9, 5), all_reduce("direct", "9 GB")
    outcome = outcome_of(network, direct, RANDOM.format(seed=3) + "scenarios = 40")
    assert outcome.scenarios is not None
    times_s = outcome.scenarios.times_s
    for seed in (3, 4, 12):
        alone = outcome_of(network, direct, RANDOM.format(seed=seed))
        assert times_s[seed - 3] == pytest.approx(alone.time_s, rel=1e-12)
    assert outcome.seeds == {"faults.random[0]": 3}
    spread = outcome.to_json()["scenarios"]["time_s"]
    assert spread["min"] == times_s.min() <= spread["median"] <= spread["p95"] <= spread["max"]
    assert "40: min" in run_text(outcome)

    archive.write(tmp_path / "runs.h5", [outcome], command="test")
    kept = archive.load(tmp_path / "runs.h5").run()
    assert kept.scenarios is not None
    np.testing.assert_array_equal(kept.scenarios.times_s, times_s)
    assert kept.to_json()["scenarios"] == outcome.to_json()["scenarios"]

    known = programs.count()
    outcome_of(network, direct, RANDOM.replace("3", "2", 1).format(seed=99) + "scenarios = 64")
    assert programs.count() == known


def test_no_scenario_is_below_its_bound():
    faults = RANDOM.format(seed=5).replace("}]", '}, { what = "link", rate = 0.1, left = 0.3 }]')
    text = text_of(flat(9, 5), all_reduce("direct", "9 GB"), faults + "scenarios = 40")
    case = case_of(flat(9, 5), all_reduce("direct", "9 GB"), None, faults + "scenarios = 40")
    outcome = run(load_spec(text), brief=True)
    assert outcome.scenarios is not None
    dtype = case.params.capacity_bytes_per_s.dtype
    for s, time_s in enumerate(outcome.scenarios.times_s):
        params = replace(case.params, **numbers(case.draws, s, dtype))
        bounds = lower_bounds(replace(case, params=params))
        assert math.isfinite(max(bounds.values()))
        assert time_s >= max(bounds.values()) * (1 - 1e-12)


def test_a_scenario_that_cuts_a_pair_off_is_named():
    faults = 'random = [{ what = "port", count = 1 }]\nscenarios = 3'
    with pytest.raises(SpecError, match=r"faults.random: in scenario 0 .*rank \d+ cannot reach"):
        outcome_of(flat(9, 5), all_reduce("direct", "9 GB"), faults)


def test_draws_follow_their_seed_count_and_pattern():
    spec = load_spec(text_of(flat(64, 4), all_reduce("ring")))
    wiring = build_network(spec.network)

    def dead(faults: str, scenario: int = 0) -> set[str]:
        faults_spec = load_spec(text_of(flat(64, 4), all_reduce("ring"), faults)).faults
        capacity = Draws(faults_spec, wiring).scenario(scenario).capacity_bytes_per_s
        return {wiring.link_name(int(i)) for i in np.flatnonzero(capacity == 0)}

    some = dead('random = [{ what = "port", count = 5, match = "rank * rail 2", seed = 3 }]')
    assert len(some) == 10
    assert all(name.endswith("rail 2") for name in some)
    assert some != dead('random = [{ what = "port", count = 5, match = "* rail 2", seed = 4 }]')
    assert some == dead('random = [{ what = "port", count = 5, match = "* rail 2", seed = 2 }]', 1)
    assert len(dead('random = [{ what = "link", rate = 1.0 }]')) == 512
    assert not dead('random = [{ what = "link", rate = 0.0 }]')
    assert len(dead('random = [{ what = "nic", count = 2 }]')) == 16


# ---- refusals


@pytest.mark.parametrize(
    ("faults", "parts"),
    [
        ('links=[{match="*", rate=0.5, down=true}]', ("faults.links[0].rate", "down = true")),
        ('links=[{match="*", loss=1.0}]', ("faults.links[0].loss", "< 1", "got 1.0")),
        ('random=[{what="port"}]', ("faults.random[0].count", "one of count")),
        ('random=[{what="port", count=1, rate=0.1}]', ("faults.random[0].count", "both given")),
        ('random=[{what="port", count=1, down=true, left=0.5}]', ("faults.random[0].left",)),
        ('random=[{what="cord", count=1}]', ("faults.random[0].what", "cord", "port")),
        ('jitter=[{at="start", kind="normal", mean="1 us"}]', ("faults.jitter[0].sigma",)),
        ('jitter=[{at="start", mean="1 us", sigma="1 us"}]', ("faults.jitter[0].sigma",)),
        ('jitter=[{at="round", mean="1 us"}, {at="round", mean="1 us"}]', ("faults.jitter",)),
        ("scenarios=4", ("faults.scenarios", "nothing is random")),
        ("window=4", ("faults.window", "go_back_n")),
        ('transport="go_back_n"', ("faults.window", "missing")),
        ("slow=[{rank=1, factor=2.0}]", ("faults.slow", "network.reduction_rate")),
        ("slow=[{rank=9, factor=2.0}]", ("faults.slow[0].rank", "got 9")),
        ("slow=[{rank=1, factor=2.0}, {rank=1, factor=2.0}]", ("faults.slow[1].rank", "twice")),
        (
            'links=[{match="leaf 3", down=true}]',
            ("faults.links[0].match", '"nic 0", "rank 0", "rank 0 rail 0", "rail 0"'),
        ),
        ('random=[{what="node", count=1}]', ("faults.random[0].what", "node", "port")),
        ('random=[{what="port", count=99}]', ("faults.random[0].count", "got 99", "at most 8")),
        ('random=[{what="port", count=1, match="x"}]', ("faults.random[0].match", "rank 0 rail 0")),
    ],
)
def test_what_makes_no_sense_is_refused(faults, parts):
    with pytest.raises(SpecError) as refused:
        case_of(flat(4, 2), all_reduce("ring"), None, faults)
    assert all(part in str(refused.value) for part in parts), refused.value


def test_a_healthy_network_has_nothing_to_reroute():
    case = case_of(flat(4, 2), all_reduce("ring"), None, 'reroute = "spread"')
    assert case.network == case_of(flat(4, 2), all_reduce("ring")).network
    assert load_spec(text_of(flat(4, 2), all_reduce("ring"))).faults == FaultsSpec()


def test_arrival_order_does_not_go_with_rerouting():
    with pytest.raises(SpecError, match=r"engine.order"):
        case_of(flat(4, 2), all_reduce("ring"), {"order": "arrival"}, down("rank 0 rail 0"))


def test_times_never_come_from_a_link_that_is_down():
    """Without a way left the emulation itself takes for ever, it never falls back."""
    case = case_of(flat(9, 5), all_reduce("direct", "9 GB"), None, down("rank 0"))
    assert float(timed(case.params, case.network, case.schedule, config=case.config).time_s) > 1e100
