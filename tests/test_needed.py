"""What would have to be true for a utilisation, put back into the step that it was asked of."""

import msgspec
import pytest

from mrcjax.spec import TrainingSpec
from mrcjax.training import achievable_fraction, batch_factor, bucket_factor, step

RANKS = 1024


@pytest.mark.parametrize("sharding", ["zero1", "none"])
@pytest.mark.parametrize("bucket_s", [1e-4, 4.4e-3, 20e-3])
@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.68, 0.96, 0.99])
def test_buckets_so_much_slower_give_the_utilisation(sharding, bucket_s, utilisation):
    training = TrainingSpec(optimiser_sharding=sharding)
    times_s = (bucket_s, bucket_s) if sharding == "zero1" else (bucket_s,)
    done = step(training, RANKS, *times_s)
    factor = bucket_factor(training, done, utilisation)
    assert factor is not None
    again = step(training, RANKS, *(factor * time_s for time_s in times_s))
    assert again.utilisation == pytest.approx(utilisation, rel=1e-9)
    assert (factor < 1) == (done.utilisation < utilisation)


def test_no_network_is_fast_enough_where_the_optimiser_alone_takes_longer():
    training = TrainingSpec()
    assert bucket_factor(training, step(training, RANKS, 4e-3, 4e-3), 0.9999) is None


def test_a_step_without_buckets_has_no_factor():
    training = TrainingSpec(pipeline_parallel=8, global_batch_tokens=4_194_304)
    assert bucket_factor(training, step(training, 64, 0.0, 0.0), 0.5) is None


@pytest.mark.parametrize("times", [2, 5])
def test_so_many_micro_batches_give_the_utilisation(times):
    few = step(TrainingSpec(), RANKS, 9e-3, 9e-3)
    many = step(TrainingSpec(global_batch_tokens=times * 4_194_304), RANKS, 9e-3, 9e-3)
    assert batch_factor(few, many.utilisation) == pytest.approx(times, rel=1e-12)
    assert batch_factor(many, few.utilisation) == pytest.approx(1 / times, rel=1e-12)


@pytest.mark.parametrize("mfu", [0.2, 0.5, 0.7])
def test_so_large_a_fraction_of_peak_gives_the_mfu(mfu):
    """With more exposed as computing gets faster, so more than the quotient."""
    training = TrainingSpec()
    done = step(training, RANKS, 3e-3, 3e-3)
    fraction = achievable_fraction(training, done, mfu)
    assert fraction is not None
    other = msgspec.structs.replace(training, achievable_fraction=fraction)
    assert step(other, RANKS, 3e-3, 3e-3).mfu == pytest.approx(mfu, rel=1e-9)
    assert (fraction > mfu / done.utilisation) == (mfu > done.mfu)
    assert achievable_fraction(training, done, 0.99) is None


@pytest.mark.parametrize("utilisation", [0.0, 1.0, float("nan"), -1.0])
def test_what_is_no_utilisation_is_refused(utilisation):
    done = step(TrainingSpec(), RANKS, 9e-3, 9e-3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        batch_factor(done, utilisation)
    with pytest.raises(ValueError, match="between 0 and 1"):
        bucket_factor(TrainingSpec(), done, utilisation)
    with pytest.raises(ValueError, match="between 0 and 1"):
        achievable_fraction(TrainingSpec(), done, utilisation)
