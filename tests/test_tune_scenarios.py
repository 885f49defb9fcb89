"""Tuning over scenarios: programmes against brute force, what is smoothed, whole searches."""

import itertools
import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import flat, toml
from scipy.optimize import linprog

import mrcjax
from mrcjax import archive, cli
from mrcjax.emulation import scenarios_of
from mrcjax.spec import SpecError, load_spec, spec_to_toml
from mrcjax.tuning import Weights, tune
from mrcjax.tuning.batch import batch_of, batch_time, loads_of, loads_time, smooth_value, value_of
from mrcjax.tuning.classes import Classes, Ports, alike, in_scenario, one_by_one
from mrcjax.tuning.programme import Demand, solve
from mrcjax.tuning.scenario_programme import solve_scenarios
from mrcjax.tuning.surrogate import Cutting, load_of, load_time

RANKS, RAILS = 6, 3
OBJECTIVES = ("mean", "p95", "worst")
AGED = '{ what = "port", match = "rank * rail 2", rate = 0.3, left = 0.5, seed = 1 }'
ANY = '{ what = "port", rate = 0.05, left = 0.5, seed = 7 }'


def spec_of(*random: str, scenarios: int = 24, size: str = "1 GB", owned=None, **options):
    options = {"shards": False, "steps": 200, "engine_steps": 0, **options}
    collective = {"kind": "all_reduce", "size": size, "stripe": True}
    collective |= {} if owned is None else {"shards": owned}
    text = toml(network=flat(RANKS, RAILS), collective=collective, tune=options)
    return load_spec(f"{text}\n[faults]\nscenarios = {scenarios}\nrandom = [{', '.join(random)}]")


def ports_of(seed: int, scenarios: int, ranks: int, rails: int) -> Classes:
    """Ranks one by one whose ports differ in every scenario, without latency."""
    rng = np.random.default_rng(seed)
    out, into = rng.choice([0.25, 0.5, 1.0], (2, scenarios, ranks, rails), p=[0.1, 0.2, 0.7])
    none, every = np.zeros_like(out), np.arange(ranks)
    least = (out.min(axis=0), into.min(axis=0), none[0], none[0])
    each = Ports(out, into, none, none)
    return Classes(every, every, np.ones(ranks), *least, scenarios=each)


# --- programmes ---------------------------------------------------------------------------------


def plain_programme(classes: Classes, objective: str, free: bool, reducers=None) -> float:
    """The mean or the largest time of one cut, over all pairs of ranks, written down plainly."""
    assert classes.scenarios is not None
    out, into = classes.scenarios.egress, classes.scenarios.ingress
    scenarios, ranks, rails = out.shape
    flows = [(i, j, r) for i, j in itertools.permutations(range(ranks), 2) for r in range(rails)]
    num = len(flows) + ranks + scenarios + 1  # flows, shards, times, the largest
    above, sums, right = [], [], []
    for s, i, r in np.ndindex(scenarios, ranks, rails):
        for end, rate in ((0, out), (1, into)):
            row = np.zeros(num)
            row[: len(flows)] = [f[end] == i and f[2] == r for f in flows]
            row[len(flows) + ranks + s] = -rate[s, i, r]
            above.append(row)
    for s in range(scenarios):
        row = np.zeros(num)
        row[len(flows) + ranks + s], row[-1] = 1, -1
        above.append(row)
    for s, i in np.ndindex(scenarios, ranks if reducers is not None else 0):
        row = np.zeros(num)
        row[len(flows) + i], row[len(flows) + ranks + s] = ranks - 1, -reducers[i]
        above.append(row)
    for i, j in itertools.permutations(range(ranks), 2):
        row = np.zeros(num)
        row[: len(flows)] = [f[:2] == (i, j) for f in flows]
        row[len(flows) + np.array([i, j])] -= 1
        sums.append(row)
        right.append(0.0)
    shards = np.eye(num)[len(flows) : len(flows) + ranks]
    sums += [shards.sum(axis=0)] if free else list(shards)
    right += [1.0] if free else [1 / ranks] * ranks
    cost = np.zeros(num)
    if objective == "mean":
        cost[len(flows) + ranks : -1] = 1 / scenarios
    else:
        cost[-1] = 1
    return linprog(cost, above, np.zeros(len(above)), np.array(sums), right).fun


@pytest.mark.parametrize("objective", ["mean", "worst"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reducers", [None, (0.2, 0.25, 0.3)])
def test_programmes_of_mean_and_largest_are_exact_and_proven(objective, free, seed, reducers):
    kinds = ports_of(seed, 5, 3, 2)
    slow = None if reducers is None else np.array(reducers)
    demand = Demand(((1.0, 1.0),), 1.0, None if free else np.full(3, 1 / 3), slow)
    found = solve_scenarios(kinds, demand, objective)
    wanted = plain_programme(kinds, objective, free, slow)
    if reducers is not None:  # so slow that they count
        assert wanted > plain_programme(kinds, objective, free) * (1 + 1e-6)
    assert found.value_s == pytest.approx(wanted, rel=1e-6)
    assert found.proven_s == pytest.approx(wanted, rel=1e-6)
    assert found.proven_s <= wanted * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_percentile_is_near_the_best_of_all_scenarios_to_leave_out(seed):
    """Of 21 scenarios the 95th percentile is the second largest time: all ways to leave one out."""
    kinds = ports_of(seed, 21, 3, 2)
    assert kinds.scenarios is not None
    demand = Demand(((1.0, 1.0),), 1.0, np.full(3, 1 / 3))
    best = np.inf
    for left_out in range(21):
        kept = np.delete(np.arange(21), left_out)
        rates = [getattr(kinds.scenarios, way)[kept].min(axis=0) for way in ("egress", "ingress")]
        here = replace(kinds, egress=rates[0], ingress=rates[1], scenarios=None)
        best = min(best, solve(here, demand).time_s)
    found = solve_scenarios(kinds, demand, "p95")
    assert found.proven_s is None
    assert best * (1 - 1e-7) <= found.value_s <= best * 1.05


def test_a_programme_too_large_is_left_out():
    assert solve_scenarios(ports_of(0, 2, 900, 2), Demand(((1.0, 1.0),), 1.0, None), "p95") is None


# --- classes and what is smoothed ---------------------------------------------------------------


def test_ranks_with_the_same_chances_are_alike():
    bad = '{ what = "port", match = "rank [01] rail *", rate = 0.5, left = 0.5, seed = 3 }'
    spec = spec_of(AGED, bad)
    case = mrcjax.build(spec)
    found = alike(case)
    assert found.index.tolist() == [1, 1, 0, 0, 0, 0] or found.index.tolist() == [0, 0, 1, 1, 1, 1]
    each, plain = found.scenarios, one_by_one(case).scenarios
    assert each is not None
    assert plain is not None
    for kind, ranks in ((found.index[0], [0, 1]), (found.index[2], [2, 3, 4, 5])):
        np.testing.assert_array_equal(each.egress[:, kind], plain.egress[:, ranks].min(axis=1))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_loads_of_classes_are_those_of_their_ranks(objective):
    case = mrcjax.build(spec_of(AGED, ANY))
    kinds, single = alike(case), one_by_one(case)
    rng = np.random.default_rng(2)
    ends = jnp.asarray(rng.normal(size=(2, len(kinds.count), RAILS)))
    temperature = jnp.asarray(1e-3)
    values = []
    for classes, cutting in (
        (kinds, Cutting(*ends)),
        (single, Cutting(*(end[kinds.index] for end in ends))),
    ):
        loads = loads_of(load_of(classes, 1e9, (True, False)), classes.scenarios, objective)
        values.append(float(loads_time(loads, cutting, temperature)[1]))
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    alone = []
    for scenario in range(case.spec.faults.scenarios):
        load = load_of(in_scenario(case, scenario)[1], 1e9, (True, False))
        alone.append(float(load_time(load, cutting, temperature)[1]))
    assert values[0] == pytest.approx(value_of(objective, np.asarray(alone)), rel=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_smoothed_values_tend_to_the_exact_ones(objective):
    times = jnp.asarray(np.random.default_rng(0).uniform(1, 2, 40))
    exact = value_of(objective, np.asarray(times))
    for temperature, error in ((2e-2, 0.1), (1e-4, 0.02)):
        smooth, found = smooth_value(objective, times, times, jnp.asarray(temperature))
        assert float(found) == pytest.approx(exact, rel=1e-12)
        assert float(smooth) == pytest.approx(exact, rel=error)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_derivatives_over_scenarios_agree_with_differences(objective):
    case = mrcjax.build(spec_of(AGED, ANY))
    classes = alike(case)
    loads = loads_of(load_of(classes, 1.0, (True, False)), classes.scenarios, objective)
    here, along = jnp.asarray(np.random.default_rng(1).normal(size=(2, 2, 1, RAILS)))

    def time(step):
        moved = Cutting(*(here + step * along))
        return loads_time(loads, moved, jnp.asarray(1e-6))[0]

    slope, timed = float(jax.jit(jax.grad(time))(0.0)), jax.jit(time)
    assert abs(slope) > 0
    assert slope == pytest.approx(float(timed(1e-7) - timed(-1e-7)) / 2e-7, rel=1e-4)


def test_never_is_no_number_between_two_others():
    times = np.array([1.0] * 15 + [np.inf] * 6)
    assert [value_of(objective, times) for objective in OBJECTIVES] == [np.inf] * 3
    assert value_of("p95", np.array([1.0] * 20 + [np.inf])) == 1.0


# --- whole searches -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aged():
    """A search against ports of one rail that are likelier to be slow than the others."""
    return tune(spec_of(AGED, engine_steps=5))


def test_the_percentile_falls_by_what_the_programme_says(aged):
    gain = aged.heuristics_s["equal"] - aged.after_s
    possible = aged.heuristics_s["equal"] - aged.optima_s["programme"]
    assert possible > 0.2 * aged.heuristics_s["equal"]
    assert gain == pytest.approx(possible, rel=0.05)
    assert aged.lower_bound_s <= aged.after_s <= min(aged.heuristics_s.values())
    fresh = aged.fresh_values_s
    assert fresh["equal"] - fresh["after"] == pytest.approx(gain, rel=0.1)
    assert aged.parameters == 2 * RAILS


def test_the_tuned_spec_gives_the_same_times_in_all_scenarios(aged):
    again = mrcjax.run(load_spec(spec_to_toml(aged.best))).scenarios
    np.testing.assert_array_equal(again.times_s, aged.scenarios_s["after"])
    assert again.spread_s()["p95"] == aged.after_s
    np.testing.assert_array_equal(again.times_s, aged.outcome.scenarios.times_s)


def test_the_engines_objective_is_that_of_all_scenarios(aged):
    case = mrcjax.build(aged.best)
    shares = case.params.shares
    here = Cutting(jnp.log(shares.source)[:, :1], jnp.log(shares.destination)[:, :1])
    batch = batch_of(case, np.zeros(RANKS, int), "p95")
    assert float(batch_time(batch, here, jnp.asarray(1e-3))[1]) == pytest.approx(
        aged.after_s, rel=1e-9
    )


def test_fresh_scenarios_are_those_of_the_seeds_that_follow(aged):
    later = spec_of(AGED.replace("seed = 1 ", "seed = 25 "))
    equal = Weights(np.ones((RAILS, RANKS)), np.ones((RAILS, RANKS))).into(later)
    times = scenarios_of(mrcjax.build(equal)).times_s
    np.testing.assert_array_equal(times, aged.fresh_s["equal"])
    assert (times != aged.scenarios_s["equal"]).any()


@pytest.mark.parametrize("objective", ["mean", "worst"])
def test_mean_and_largest_come_near_their_proven_bounds(objective):
    found = tune(spec_of(AGED, objective=objective))
    assert found.bounds_s["linear programme"] == pytest.approx(found.lower_bound_s, rel=1e-3)
    assert found.gap < 0.01
    assert found.after_s == value_of(objective, found.scenarios_s["after"])


def test_damage_that_nobody_foresees_leaves_nothing_to_gain():
    found = tune(spec_of(ANY))
    assert found.after_s == pytest.approx(found.heuristics_s["equal"], rel=2e-3)
    assert found.optima_s["programme"] == pytest.approx(found.heuristics_s["equal"], rel=2e-3)


@pytest.mark.slow
def test_every_rank_by_its_own_record_fits_what_was_drawn():
    found = tune(spec_of(AGED, ANY, alike=False))
    assert found.parameters == 2 * RANKS * RAILS
    together = tune(spec_of(AGED, ANY))
    assert found.after_s < together.after_s
    assert found.lower_bound_s <= found.after_s


def test_rails_that_are_ever_down_are_left_out():
    down = '{ what = "port", match = "rank 2 rail 2", rate = 0.4, left = 0, seed = 1 }'
    found = tune(spec_of(down, objective="worst"))
    assert found.before_s == np.inf
    assert np.isfinite(found.after_s)
    assert np.asarray(found.best.collective.rail_shares.source)[2, 2] == 0
    assert json.loads(json.dumps(found.to_json()))["before_s"] is None


@pytest.mark.parametrize("alike", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_never_worse_than_simple_never_below_the_bound(alike):
    """Random chances on all ports or some, by port or by direction, every objective."""
    patterns = ["rank * {}rail 0", "rank [02] {}rail *", "rank * {}rail *", "rank 1 {}rail 1"]
    for seed in range(9):
        rng = np.random.default_rng(seed)
        faults = []
        for match in rng.choice(patterns, 2, replace=False):
            what, way = ("port", "") if rng.random() < 0.5 else ("link", "*gress ")
            state = f"rate = {rng.uniform(0, 0.4)}, left = {rng.uniform(0.1, 1)}, seed = {seed}"
            faults.append(f'{{ what = "{what}", match = "{match.format(way)}", {state} }}')
        objective = OBJECTIVES[seed % 3]
        options = {"shards": objective == "worst", "objective": objective, "steps": 50}
        owned = rng.uniform(0.1, 1, RANKS).tolist() if objective == "p95" else None
        found = tune(spec_of(*faults, size="10 MB", owned=owned, alike=alike, **options))
        assert found.after_s <= min(found.before_s, *found.heuristics_s.values()), seed
        assert found.after_s >= found.lower_bound_s * (1 - 1e-12), seed


def test_the_command_keeps_all_scenarios(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "s.toml").write_text(spec_to_toml(spec_of(AGED)))
    words = ["tune", str(tmp_path / "s.toml"), "--out", str(tmp_path / "a.h5")]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert "95th percentile of 24 scenarios" in text
    assert "fresh scenarios" in text
    stored = archive.load(tmp_path / "a.h5")
    assert len(stored.tables["tuned-scenarios"].rows) == 24
    assert cli.main([*words, "--json", "--resume"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"] == "p95"
    assert set(found["fresh_s"]) == {"before", "after", *found["heuristics_s"]}
    rerun = mrcjax.run(load_spec(tmp_path / "s.tuned.toml"))
    assert rerun.scenarios.spread_s()["p95"] == found["after_s"]


@pytest.mark.parametrize(
    ("options", "scenarios", "where"),
    [
        ({"objective": "p95"}, 1, "tune.objective"),
        ({"alike": True}, 1, "tune.alike"),
        ({"rails": "whole"}, 4, "tune.rails"),
        ({"rails": "table", "alike": True}, 4, "tune.alike"),
    ],
)
def test_what_has_no_effect_or_is_not_known_is_refused(options, scenarios, where):
    with pytest.raises(SpecError) as error:
        tune(spec_of(AGED, scenarios=scenarios, **options))
    assert error.value.where == where


def test_ranks_that_never_meet_are_refused():
    down = '{ what = "port", match = "rank 2 rail *", rate = 0.5, left = 0, seed = 1 }'
    with pytest.raises(SpecError, match="in all scenarios") as error:
        tune(spec_of(down))
    assert error.value.where == "faults.random"
