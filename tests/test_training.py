"""The training step: counts, overlap, step time, cost, against hand calculations and benchmarks."""

import dataclasses
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrcjax.spec import SpecError, TrainingSpec
from mrcjax.training import (
    FLOP_CONVENTIONS,
    LEFT_OUT,
    Bucket,
    achievable_fraction_convention,
    buckets,
    explain,
    exposed_all_gather_s,
    exposed_closed_form_s,
    exposed_reduce_scatter_s,
    flops_per_token,
    layer_parameters,
    parameters,
    run_cost,
    step,
)

H100 = TrainingSpec()
B200 = TrainingSpec(gpu="b200")
FP8 = TrainingSpec(precision="fp8")
RANKS = 1024
PORT = 400e9 / 8 * 0.96  # bytes/s of a 400 Gbit/s port after goodput
CLEAN_S = 4.43e-3  # a bucket over 128 ranks, direct, 400 Gbit/s, hand calculation
times_s = st.floats(0, 0.1)


def _ms(value: float):
    return pytest.approx(value * 1e-3, rel=0.005)


# --- model -------------------------------------------------------------------------------------


def test_parameters_of_llama2_70b():
    assert parameters(H100) == 68_976_648_192
    assert layer_parameters(H100) == 855_654_400


def test_flops_per_token_in_the_three_conventions():
    gflop = {c: flops_per_token(H100, c) / 1e9 for c in FLOP_CONVENTIONS}
    assert gflop["full"] == pytest.approx(412.28 + 32.21, abs=0.005)
    assert gflop["full"] == pytest.approx(444.49, abs=0.005)
    assert gflop["causal"] == pytest.approx(428.4, abs=0.05)
    assert gflop["parameters"] == pytest.approx(413.9, abs=0.05)
    assert flops_per_token(H100) == flops_per_token(H100, "full")


def test_flops_of_ungrouped_attention_match_the_textbook_form():
    # Megatron's 72 L h^2 (1 + s/6h + V/12Lh) with f = 4h and two MLP products; here three
    training = TrainingSpec(
        layers=10, hidden=1024, ffn=4096, heads=16, kv_heads=16, vocab=5000, sequence=512
    )
    third_product = 6 * 10 * 4096 * 1024
    textbook = 72 * 10 * 1024**2 * (1 + 512 / (6 * 1024) + 5000 / (12 * 10 * 1024))
    assert flops_per_token(training) == pytest.approx(textbook + third_product, rel=1e-12)


# --- buckets -----------------------------------------------------------------------------------


def test_buckets_of_the_default():
    sent = buckets(H100, RANKS, node_size=8)
    assert sent.gradient == Bucket("reduce_scatter", 213_913_600.0)
    assert sent.parameter == Bucket("all_gather", 213_913_600.0)
    assert sent.distinct == (sent.gradient, sent.parameter)
    assert (sent.group_size, sent.group_stride, sent.num_groups) == (128, 8, 8)
    assert sent.num_buckets == 80
    assert sent.sent_bytes == pytest.approx(34e9, rel=0.002)
    assert sent.warnings == ()


def test_buckets_follow_precision_layers_and_stages():
    training = TrainingSpec(
        gradient_bytes=4, parameter_bytes=1, pipeline_parallel=4, bucket_layers=5
    )
    sent = buckets(training, RANKS, node_size=8)
    assert sent.gradient == Bucket("reduce_scatter", 5 * 855_654_400 * 4 / 8)
    assert sent.parameter == Bucket("all_gather", 5 * 855_654_400 / 8)
    assert (sent.num_buckets, sent.group_size, sent.group_stride, sent.num_groups) == (4, 32, 8, 32)


def test_one_replica_sends_nothing():
    sent = buckets(H100, 8, node_size=8)
    assert (sent.distinct, sent.num_buckets, sent.sent_bytes) == ((), 0, 0.0)
    assert step(H100, 8, 0.0, 0.0).exposed_s == 0
    with pytest.raises(ValueError, match="t_rs_s must be 0"):
        step(H100, 8, 1e-3)


def test_without_sharding_one_all_reduce_in_the_backward():
    training = TrainingSpec(optimiser_sharding="none")
    sent = buckets(training, RANKS, node_size=8)
    assert sent.distinct == (Bucket("all_reduce", 213_913_600.0),)
    assert sent.sent_bytes == buckets(H100, RANKS, node_size=8).sent_bytes
    assert "103.5 GB" in sent.warnings[0]
    result = step(training, RANKS, 2 * CLEAN_S)
    expected_s = exposed_closed_form_s(80, 2 * CLEAN_S, result.backward_s)
    assert result.exposed_s == pytest.approx(expected_s, rel=1e-9)
    with pytest.raises(ValueError, match="t_ag_s must be 0"):
        step(training, RANKS, CLEAN_S, CLEAN_S)


def test_network_without_nodes_is_told_its_tensor_parallel_traffic():
    sent = buckets(H100, RANKS, node_size=1, port_bytes_per_s=PORT)
    # 8 collectives of 67 MB per layer and micro-batch, 7/8 of each sent, 80 layers, 8 passes
    assert sent.tensor_parallel_sent_bytes == pytest.approx(300e9, rel=0.005)
    assert sent.tensor_parallel_sent_bytes / sent.sent_bytes == pytest.approx(9, rel=0.03)
    (warning,) = sent.warnings
    for part in ("training.tensor_parallel = 8", "no nodes", "300.6 GB", "6.263 s", "3.409 s"):
        assert part in warning
    assert sent.tensor_parallel_sent_bytes / PORT > step(H100, RANKS, 0, 0).computing_s


@pytest.mark.parametrize(
    ("node_size", "num_warnings"), [(1, 1), (4, 1), (8, 0), (12, 1), (16, 0), (64, 0)]
)
def test_nodes_must_hold_whole_tensor_parallel_groups(node_size, num_warnings):
    assert len(buckets(H100, RANKS, node_size).warnings) == num_warnings


def test_tensor_parallel_of_one_needs_no_nodes():
    sent = buckets(TrainingSpec(tensor_parallel=1), RANKS, node_size=1)
    assert (sent.warnings, sent.tensor_parallel_sent_bytes) == ((), 0.0)


@pytest.mark.parametrize(
    ("training", "ranks", "parts"),
    [
        (H100, 1020, ("training.tensor_parallel", "network.ranks = 1020", "multiple of 8 ranks")),
        (
            H100,
            16384,
            ("training.global_batch_tokens", "got 4194304", "8388608", "network.ranks = 8192"),
        ),
        (H100, 768, ("training.global_batch_tokens", "96 replicas", "network.ranks = 512")),
        (
            TrainingSpec(pipeline_parallel=16),
            64,
            ("training.tensor_parallel", "pipeline_parallel = 16", "multiple of 128 ranks"),
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(training, ranks, parts):
    with pytest.raises(SpecError) as caught:
        buckets(training, ranks, node_size=8)
    for part in parts:
        assert part in str(caught.value)
    with pytest.raises(SpecError):
        step(training, ranks, CLEAN_S, CLEAN_S)


def test_no_rank_count_is_offered_where_none_fits():
    training = TrainingSpec(micro_batch=3)
    with pytest.raises(SpecError, match="sequence x micro_batch") as caught:
        buckets(training, RANKS, node_size=8)
    assert "network.ranks" not in str(caught.value)


@given(st.integers(1, 300), st.integers(1, 300))
def test_offered_rank_count_is_the_largest_that_fits(passes, replicas):
    training = TrainingSpec(global_batch_tokens=4096 * passes, tensor_parallel=2)
    if passes % replicas == 0:
        buckets(training, 2 * replicas, node_size=8)
        return
    with pytest.raises(SpecError) as caught:
        buckets(training, 2 * replicas, node_size=8)
    fitting = max(d for d in range(1, replicas) if passes % d == 0)
    assert caught.value.remedy.endswith(f"or network.ranks = {2 * fitting}")


# --- overlap -----------------------------------------------------------------------------------


@given(st.integers(1, 100), times_s, times_s)
def test_recursion_agrees_with_the_closed_form(num_buckets, transfer_s, computing_s):
    computing = [computing_s / num_buckets] * num_buckets
    transfers = [transfer_s] * num_buckets
    expected_s = pytest.approx(
        exposed_closed_form_s(num_buckets, transfer_s, computing_s), rel=1e-9, abs=1e-12
    )
    assert exposed_reduce_scatter_s(computing, transfers) == expected_s
    assert exposed_all_gather_s(computing, transfers) == expected_s


@given(st.lists(st.tuples(times_s, times_s), min_size=1, max_size=20))
def test_recursion_is_the_longest_path(pairs):
    computing, transfers = zip(*pairs, strict=True)
    # some bucket waits for its computing; all transfers from there on follow one another
    longest_s = max(sum(computing[: k + 1]) + sum(transfers[k:]) for k in range(len(pairs)))
    expected_s = pytest.approx(longest_s - sum(computing), rel=1e-9, abs=1e-12)
    assert exposed_reduce_scatter_s(computing, transfers) == expected_s
    # a forward is a backward with time reversed
    assert exposed_all_gather_s(computing[::-1], transfers[::-1]) == expected_s


def test_slowdown_by_hand():
    # transfer 1 lasts from 1 to 1.5; meanwhile 0.5/1.1 of computing 2 is done, the rest follows
    done_s = 1.5 + 1 - 0.5 / 1.1
    exposed_s = exposed_reduce_scatter_s([1, 1], [0.5, 0.5], slowdown=0.1)
    assert exposed_s == pytest.approx(done_s + 0.5 - 2, rel=1e-12)
    # forward: starts at 0.5, the second transfer ends at 1
    exposed_s = exposed_all_gather_s([1, 1], [0.5, 0.5], slowdown=0.1)
    assert exposed_s == pytest.approx(1 + (1 - 0.5 / 1.1) + 1 - 2, rel=1e-12)
    # all of the work under a long transfer: it takes 1.1, and hides under what is sent anyway
    assert exposed_reduce_scatter_s([1, 1], [5, 5], slowdown=0.1) == pytest.approx(9)


def _ticked_backward_s(computing, transfers, slowdown, tick_s):
    """Advance computing and link tick by tick, as slowly and as plainly as possible."""
    now_s, computed, released = 0.0, 0, 0
    work_left, link_left = list(computing), 0.0
    while computed < len(computing) or released < computed or link_left > 0:
        if link_left <= 0 and released < computed:
            link_left += transfers[released]
            released += 1
        if computed < len(computing):
            work_left[computed] -= tick_s / (1 + slowdown if link_left > 0 else 1)
            computed += work_left[computed] <= 0
        if link_left > 0:
            link_left -= tick_s
        now_s += tick_s
    return now_s - sum(computing)


@pytest.mark.parametrize("slowdown", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(
    ("computing", "transfers"),
    [
        ((1.0, 1.0, 1.0), (0.3, 0.6, 0.2)),
        ((0.5, 2.0, 0.1, 1.0), (0.9, 0.7, 0.8, 0.1)),
        ((1.0, 0.2, 0.2, 3.0), (2.5, 0.3, 0.3, 0.3)),
    ],
)
def test_slowdown_agrees_with_a_ticked_clock(computing, transfers, slowdown):
    ticked_s = _ticked_backward_s(computing, transfers, slowdown, tick_s=1e-4)
    exposed_s = exposed_reduce_scatter_s(computing, transfers, slowdown)
    assert exposed_s == pytest.approx(ticked_s, abs=2e-3)


def test_overlap_off_exposes_everything():
    result = step(TrainingSpec(overlap=False), RANKS, 4e-3, 5e-3)
    assert result.exposed_reduce_scatter_s == pytest.approx(80 * 4e-3)
    assert result.exposed_all_gather_s == pytest.approx(80 * 5e-3)


# --- the step ----------------------------------------------------------------------------------


def test_computing_times_of_the_default():
    result = step(H100, RANKS, CLEAN_S, CLEAN_S)
    assert (result.replicas, result.micro_batches) == (128, 8)
    assert result.computing_s == pytest.approx(3.409, abs=0.0005)
    assert result.computing_s / 8 == _ms(426)
    assert result.forward_s == _ms(142)
    assert result.backward_s == _ms(284)
    assert result.bubble_s == 0


def test_clean_400_gbit_step():
    result = step(H100, RANKS, CLEAN_S, CLEAN_S)
    assert result.exposed_s == pytest.approx(0.290, abs=0.003)
    assert result.step_s == pytest.approx(3.71, abs=0.005)
    assert result.utilisation == pytest.approx(0.92, abs=0.005)
    assert result.mfu_full == pytest.approx(0.50, abs=0.005)
    assert result.tokens_per_s == pytest.approx(1.13e6, abs=0.005e6)


def test_measured_pipeline_shape():
    # NVIDIA's 70B recipe on 1,024 H100 measured 53.4% MFU; a bucket on 32 ranks at 400 Gbit/s
    training = TrainingSpec(
        pipeline_parallel=4, interleave=5, global_batch_tokens=4 * H100.global_batch_tokens
    )
    bucket_s = 213_913_600 * 31 / 32 / PORT + 7e-6
    result = step(training, RANKS, bucket_s, bucket_s)
    assert result.micro_batches == 128
    assert result.bubble_s == pytest.approx(3 / (5 * 128) * result.computing_s, rel=1e-12)
    assert result.utilisation == pytest.approx(0.989, abs=0.0005)
    assert result.mfu == pytest.approx(0.534, abs=0.0005)


# Hand calculations, rounded: bucket on 128 ranks in ms; for H100 and for B200 exposed ms,
# utilisation %, M tokens/s, M$ of a run. Network watts and dollars: watts of switches and modules,
# on the switched rails also of the many adapters that no usual server contains.
TREE, DRAGONFLY, PLANES = (116.7e3, 8.67e6), (78.0e3, 6.21e6), (114.5e3, 10.44e6)
PASSIVE_8, SWITCHED_8 = (20e3, 5e6), (642e3, 41.8e6)
PASSIVE_20, SWITCHED_20 = (49e3, 13e6), (1606e3, 104e6)
TABLE_B = [
    ("tree x1", TREE, 5.19, (410, 89, 1.10, 1.28), (580, 77, 1.61, 1.39)),
    ("tree x1.4", TREE, 6.94, (690, 83, 1.02, 1.38), (860, 70, 1.45, 1.55)),
    ("tree x2", TREE, 9.60, (1115, 75, 0.92, 1.52), (1290, 61, 1.26, 1.77)),
    ("tree x3", TREE, 14.0, (1820, 65, 0.80, 1.75), (1990, 50, 1.04, 2.15)),
    ("dragonfly x1", DRAGONFLY, 4.43, (290, 92, 1.13, 1.20), (460, 81, 1.68, 1.31)),
    ("dragonfly x1.5", DRAGONFLY, 6.63, (640, 84, 1.03, 1.32), (810, 71, 1.47, 1.49)),
    ("rails 8 passive", PASSIVE_8, 0.55, (1, 99.7, 1.23, 1.09), (1, 99.5, 2.06, 1.06)),
    ("rails 8 switched", SWITCHED_8, 0.55, (1, 99.7, 1.23, 1.60), (1, 99.5, 2.06, 1.36)),
    ("rails 20 passive", PASSIVE_20, 0.22, (0.5, 99.7, 1.23, 1.20), (0.5, 99.5, 2.06, 1.12)),
    ("rails 20 switched", SWITCHED_20, 0.22, (0.5, 99.7, 1.23, 2.46), (0.5, 99.5, 2.06, 1.87)),
    ("planes", PLANES, 2.24, (41, 98.5, 1.21, 1.18), (110, 94.5, 1.96, 1.16)),
]


@pytest.mark.parametrize("training", [H100, B200], ids=["h100", "b200"])
@pytest.mark.parametrize(
    ("parts", "bucket_ms", "h100", "b200"),
    [row[1:] for row in TABLE_B],
    ids=[r[0] for r in TABLE_B],
)
def test_table_as_described(training, parts, bucket_ms, h100, b200):
    exposed_ms, percent, mega_tokens, mega_usd = h100 if training is H100 else b200
    result = step(training, RANKS, bucket_ms * 1e-3, bucket_ms * 1e-3)
    assert result.exposed_s == pytest.approx(exposed_ms * 1e-3, rel=0.012, abs=5e-4)
    assert 100 * result.utilisation == pytest.approx(percent, abs=0.6)
    assert result.tokens_per_s == pytest.approx(mega_tokens * 1e6, abs=0.006e6)
    cost = run_cost(training, result, RANKS, *parts)
    assert cost.total_usd == pytest.approx(mega_usd * 1e6, rel=0.01)


@pytest.mark.parametrize(
    ("training", "t_rs_ms", "t_ag_ms", "percent"),
    [
        (FP8, 4.43, 4.43, 83),
        (TrainingSpec(gradient_bytes=4), 2 * 4.43, 4.43, 84),
        (TrainingSpec(pipeline_parallel=4, interleave=5), 4.33, 4.33, 96),
        (H100, 2.2, 2.2, 98.6),
    ],
    ids=["fp8", "fp32 gradients", "pipeline", "800 Gbit/s"],
)
def test_variants(training, t_rs_ms, t_ag_ms, percent):
    result = step(training, RANKS, t_rs_ms * 1e-3, t_ag_ms * 1e-3)
    assert 100 * result.utilisation == pytest.approx(percent, abs=0.5)


@pytest.mark.parametrize(
    ("mega_batch", "ranks", "percent"),
    [(4, 64, 99.6), (4, 1024, 92), (4, 4096, 74), (4, 8192, 59), (16, 1024, 98), (16, 16384, 74)],
)
def test_strong_scaling_at_400_gbit(mega_batch, ranks, percent):
    training = TrainingSpec(global_batch_tokens=mega_batch * 2**20)
    replicas = training.data_parallel(ranks)
    bucket_s = 213_913_600 * (replicas - 1) / replicas / PORT + 7e-6
    result = step(training, ranks, bucket_s, bucket_s)
    assert 100 * result.utilisation == pytest.approx(percent, abs=0.6)


@pytest.mark.parametrize("training", [H100, B200, FP8], ids=["h100", "b200", "fp8"])
def test_free_network_leaves_the_optimiser(training):
    result = step(training, RANKS, 0.0, 0.0)
    assert result.exposed_s == 0
    expected = result.computing_s / (result.computing_s + 10e-3)
    assert result.utilisation == pytest.approx(expected, rel=1e-14)
    assert 0.995 <= result.utilisation <= 0.9971


@given(times_s, times_s, times_s, times_s, st.floats(0, 1), st.booleans())
def test_a_slower_network_never_helps(t_rs_s, more_rs_s, t_ag_s, more_ag_s, slowdown, overlap):
    training = TrainingSpec(comm_slowdown=slowdown, overlap=overlap)
    fast = step(training, RANKS, t_rs_s, t_ag_s)
    slow = step(training, RANKS, t_rs_s + more_rs_s, t_ag_s + more_ag_s)
    assert slow.utilisation <= fast.utilisation * (1 + 1e-12)
    assert slow.exposed_s >= fast.exposed_s - 1e-9


@given(times_s, times_s, st.sampled_from([(1, 1), (4, 1), (4, 5)]), st.floats(1, 1.4))
def test_parts_make_up_the_step(t_rs_s, t_ag_s, pipeline, recompute):
    training = TrainingSpec(
        pipeline_parallel=pipeline[0], interleave=pipeline[1], recompute_factor=recompute
    )
    result = step(training, RANKS, t_rs_s, t_ag_s)
    parts_s = result.computing_s + result.bubble_s + result.exposed_s + result.optimiser_s
    assert result.step_s == pytest.approx(parts_s, rel=1e-12)
    assert result.mfu_full == pytest.approx(0.54 * result.utilisation / recompute, rel=1e-12)
    passes_s = result.micro_batches * (result.forward_s + result.backward_s)
    assert passes_s == pytest.approx(result.computing_s, rel=1e-12)
    # recomputing is done in the backward: the forward does not take longer for it
    plain = step(TrainingSpec(pipeline_parallel=pipeline[0]), RANKS, 0, 0)
    assert result.forward_s == pytest.approx(plain.forward_s, rel=1e-12)


def test_counting_of_attention_names_the_mfu_and_leaves_the_time():
    causal = TrainingSpec(attention="causal")
    result, usual = (step(t, RANKS, CLEAN_S, CLEAN_S) for t in (causal, H100))
    assert result.step_s == usual.step_s
    assert result.mfu == usual.mfu_causal < usual.mfu == usual.mfu_full
    assert usual.mfu_parameters / usual.mfu_full == pytest.approx(413.86 / 444.49, rel=1e-4)
    # a fraction given in the spec counts as the spec counts
    given = TrainingSpec(attention="causal", achievable_fraction=0.54)
    assert achievable_fraction_convention(causal) == "full"
    assert achievable_fraction_convention(given) == "causal"
    computing_s = step(given, RANKS, 0, 0).computing_s
    assert computing_s / usual.computing_s == pytest.approx(428.39 / 444.49, rel=1e-4)


@pytest.mark.parametrize("bad", [-1e-3, math.nan, math.inf])
def test_times_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="t_rs_s must be finite and not negative"):
        step(H100, RANKS, bad, 0.0)
    with pytest.raises(ValueError, match="t_ag_s must be finite and not negative"):
        step(H100, RANKS, 0.0, bad)


def test_larger_buckets_expose_more():
    # whole transfers wait for the last gradient: one bucket of all layers hides nothing
    exposed = [
        step(TrainingSpec(bucket_layers=n), RANKS, n * CLEAN_S, n * CLEAN_S).exposed_s
        for n in (1, 5, 20, 80)
    ]
    assert all(small < large for small, large in itertools.pairwise(exposed))
    assert exposed[-1] == pytest.approx(2 * 80 * CLEAN_S)


# --- the run -----------------------------------------------------------------------------------


def test_run_of_two_trillion_tokens():
    cost = run_cost(H100, step(H100, RANKS, CLEAN_S, CLEAN_S), RANKS, 57.2e3, 5.48e6)
    assert cost.hours == pytest.approx(491, abs=0.5)
    assert cost.total_usd == pytest.approx(1.19e6, abs=0.005e6)
    assert cost.total_usd == cost.gpu_usd + cost.network_usd + cost.electricity_usd
    assert cost.gpu_usd == pytest.approx(cost.hours * 1024 * 2.10, rel=1e-12)
    assert cost.network_usd == pytest.approx(cost.hours * 5.48e6 / 35040, rel=1e-12)
    assert cost.average_watts == pytest.approx((1024 * 1050 * 0.9 + 57.2e3) * 1.3, rel=1e-12)
    assert cost.energy_kwh == pytest.approx(cost.hours * cost.average_watts / 1e3, rel=1e-12)
    assert cost.electricity_usd == pytest.approx(0.09 * cost.energy_kwh, rel=1e-12)
    # network and all electricity together are a tenth of a run
    assert 1 - cost.gpu_usd / cost.total_usd == pytest.approx(0.11, abs=0.006)


def test_run_of_other_ranks_is_refused():
    with pytest.raises(ValueError, match="1024 ranks"):
        run_cost(H100, step(H100, RANKS, 0, 0), 512, 0.0, 0.0)


# --- what was assumed --------------------------------------------------------------------------


def test_explain_gives_every_field_with_unit_and_source():
    lines = {line.field: line for line in explain(H100, RANKS)}
    assert set(H100.__struct_fields__) < set(lines)
    assert all(line.value and line.source for line in lines.values())
    for field, value in {
        "sequence": "4,096 tokens",
        "micro_batch": "1 sequence",
        "peak_flops": "989 TFLOP/s",
        "optimiser_time": "10 ms",
        "server_watts": "1,050 W",
        "overlap": "true",
        "run_tokens": "2,000,000,000,000 tokens",
        "parameters": "68,976,648,192",
        "FLOPs per token, attention in full": "444.49 GFLOP",
        "micro-batches per replica": "8",
        "computing time of a step": "3.409 s",
        "reduce_scatter bucket": "213.9 MB x 80",
    }.items():
        assert lines[field].value == value
    assert (lines["achievable_fraction"].mark, lines["parameters"].source) == ("A", "arithmetic")
    assert "computing time of a step" not in {line.field for line in explain(H100)}


def test_explain_names_what_the_spec_overrides():
    training = TrainingSpec(gpu_hour_usd=3.0, gradient_bytes=4)
    lines = {line.field: line for line in explain(training)}
    assert lines["gpu_hour_usd"][1:] == ("3 $/h", "spec", "")
    assert lines["gradient_bytes"][1:] == ("4 B", "spec", "")


def test_rows_have_every_number_of_the_step_and_of_the_run():
    result = step(H100, RANKS, CLEAN_S, CLEAN_S)
    texts = dict(result.rows())
    assert texts["step"] == "3.707 s"
    assert texts["utilisation (computing / step)"] == "92.0%"
    assert texts["MFU, attention in full"] == "49.7%"
    cost = run_cost(H100, result, RANKS, 57.2e3, 5.48e6)
    assert len(cost.rows()) == len(dataclasses.fields(cost))
    assert dict(cost.rows())["total"].endswith(" $")


def test_left_out_names_what_matters():
    for part in ("checkpoints", "stragglers", "tensor-", "embedding", "pipeline sends", "storage"):
        assert part in LEFT_OUT
    # the share that LEFT_OUT gives for embedding and head
    ends = 2 * 32000 * 8192
    assert ends / parameters(H100) == pytest.approx(0.008, abs=0.0005)
