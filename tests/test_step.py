"""`train`: the buckets of a training step become runs, and the runs become a step and its cost."""

import json

import pytest

from mrcjax.network.inventory import inventory
from mrcjax.spec import Spec, SpecError, example, load_spec
from mrcjax.step import network_watts, train
from mrcjax.training import step

SMALL = ("network.ranks=64", "collective.group_size=8", "collective.group_stride=8")
SPEC = load_spec(example("training"), SMALL)


def with_(*overrides: str, kind: str = "training") -> Spec:
    return load_spec(example(kind), (*SMALL, *overrides))


def test_buckets_run_in_all_groups_at_once():
    trained = train(SPEC)
    assert set(trained.outcomes) == {"reduce_scatter", "all_gather"}
    for kind, outcome in trained.outcomes.items():
        asked = outcome.spec.collective
        assert (asked.kind, asked.group_size, asked.group_stride) == (kind, 8, 8)
        assert float(asked.size) == 855_654_400 * 2 / 8
        assert outcome.spec.network == SPEC.network
        # each of 8 ranks sends 7/8 of its bucket at 48 GB/s, and nothing is in the way
        ideal_s = float(asked.size) * 7 / 8 / 48e9
        assert outcome.time_s == pytest.approx(ideal_s + 3.64e-6 + 2 * 725e-9, rel=1e-2)
    assert trained.t_rs_s == trained.outcomes["reduce_scatter"].time_s
    assert SPEC.training is not None
    assert trained.step == step(SPEC.training, 64, trained.t_rs_s, trained.t_ag_s)
    assert json.loads(json.dumps(trained.to_json()))["step"]["step_s"] == trained.step.step_s


def test_algorithm_of_the_buckets():
    ring = train(SPEC, "ring")
    assert {o.algorithm for o in ring.outcomes.values()} == {"ring"}
    asked = r"collective.algorithm does not do reduce_scatter .*\(which \[training\] asks for"
    with pytest.raises(SpecError, match=asked):
        train(SPEC, "hierarchical")


def test_without_sharding_one_all_reduce():
    trained = train(with_('training.optimiser_sharding="none"'))
    assert set(trained.outcomes) == {"all_reduce"}
    assert trained.t_ag_s == 0
    assert any("optimiser state" in text for text in trained.warnings)


def test_one_replica_sends_nothing():
    trained = train(with_("training.pipeline_parallel=8"))
    assert trained.outcomes == {}
    assert (trained.t_rs_s, trained.t_ag_s, trained.step.exposed_s) == (0, 0, 0)
    assert trained.cost is not None


def test_groups_of_everyone_with_a_model_on_one_rank():
    trained = train(with_("training.tensor_parallel=1", "training.bucket_layers=80"))
    assert trained.outcomes["all_gather"].spec.collective.group_size is None


def test_late_rank_delays_the_bucket():
    late = train(with_('faults.late=[{rank=5, by="3 ms"}]'))
    assert late.t_rs_s == pytest.approx(train(SPEC).t_rs_s + 3e-3, rel=1e-2)


def test_network_without_a_price_has_no_cost():
    spec = with_("training={}", 'network.reach="direct"', "network.rails=63", kind="flat_rails")
    trained = train(spec)
    assert trained.cost is None
    assert trained.to_json()["cost"] is None
    assert any("not priced" in text for text in trained.warnings)
    # eight tensor-parallel ranks without a node to be in
    assert any("training.tensor_parallel" in text for text in trained.warnings)


def test_power_of_adapters_that_no_server_comes_with():
    one = inventory(SPEC.network)
    assert network_watts(one) == one.watts_without_nics
    eight = inventory(with_(kind="flat_rails").network)
    assert eight.nics == 4 * 64  # of 800 Gbit/s
    watts, base = network_watts(eight), eight.watts_without_nics
    assert watts is not None
    assert base is not None
    assert watts - base == pytest.approx(0.75 * eight.watts["nics"])


def test_no_training_section():
    with pytest.raises(SpecError, match=r"\[training\] is missing"):
        train(load_spec(example("flat_rails")))


def test_gpu_without_a_price_has_a_step_and_no_cost():
    trained = train(with_("training.gpu=tpu_v5p"))
    assert trained.cost is None
    assert trained.step.utilisation > 0
    (said,) = [text for text in trained.warnings if "cost" in text]
    for key in ("gpu_hour_usd", "server_watts", "server_load"):
        assert f"training.{key}" in said


def test_buckets_over_dimensions_of_the_data_parallel_groups():
    keys = ('collective.algorithm="hierarchical"', "collective.dimensions=[2, 4]")
    trained = train(with_(*keys))
    for outcome in trained.outcomes.values():
        assert outcome.spec.the_collective.dimensions == (2, 4)
    # the same bytes as at once, in three sends in place of seven
    assert trained.t_rs_s == pytest.approx(train(SPEC).t_rs_s, rel=1e-2)
