"""Turn the time of a step and the price of a network into what a whole run costs."""

from dataclasses import dataclass

from mrcjax.spec import TrainingSpec
from mrcjax.training.step_time import TrainingStep


@dataclass(frozen=True)
class RunCost:
    """Hours, dollars and energy of a whole run; electricity is at the meter (times PUE)."""

    hours: float
    gpu_usd: float
    network_usd: float  # its share of the network's life
    electricity_usd: float
    total_usd: float
    average_watts: float  # GPUs and network, at the meter
    energy_kwh: float

    def rows(self) -> list[tuple[str, str]]:
        """Return label and text of each line of a table."""
        return [
            ("hours", f"{self.hours:,.1f}"),
            ("GPUs", _dollars(self.gpu_usd)),
            ("network", _dollars(self.network_usd)),
            ("electricity", _dollars(self.electricity_usd)),
            ("total", _dollars(self.total_usd)),
            ("average power", f"{self.average_watts / 1e3:,.1f} kW"),
            ("energy", f"{self.energy_kwh:,.0f} kWh"),
        ]


def run_cost(
    training: TrainingSpec,
    step: TrainingStep,
    ranks: int,
    network_watts: float,
    network_usd: float,
) -> RunCost:
    """Return what ``training.run_tokens`` cost at this step time.

    ``network_usd`` is the purchase, written off over ``training.network_life_hours``.
    ``network_watts`` is what the measured power of a server does not contain: switches and modules,
    and adapters beyond the usual one per GPU. ValueError where the GPU has no price or power.
    """
    if ranks != step.ranks:
        raise ValueError(f"the step is of {step.ranks} ranks, got ranks = {ranks}")
    gpu = training.hardware
    hour_usd, watts, load = gpu.gpu_hour_usd, gpu.server_watts, gpu.server_load
    if hour_usd is None or watts is None or load is None:
        raise ValueError(f"training needs {', '.join(gpu.unpriced)} for a cost")
    hours = training.run_tokens / step.tokens_per_s / 3600
    server_watts = ranks * watts * load
    average_watts = (server_watts + network_watts) * training.pue
    energy_kwh = hours * average_watts / 1e3
    gpu_usd = hours * ranks * hour_usd
    network_share_usd = hours * network_usd / training.network_life_hours
    electricity_usd = energy_kwh * training.electricity_usd_per_kwh
    return RunCost(
        hours=hours,
        gpu_usd=gpu_usd,
        network_usd=network_share_usd,
        electricity_usd=electricity_usd,
        total_usd=gpu_usd + network_share_usd + electricity_usd,
        average_watts=average_watts,
        energy_kwh=energy_kwh,
    )


def _dollars(usd: float) -> str:
    return f"{usd:,.0f} $"
