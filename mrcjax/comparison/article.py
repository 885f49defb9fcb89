"""The article's claims as numbers, read from `article.toml`; nothing is emulated from them."""

import tomllib
from dataclasses import dataclass
from importlib import resources

from mrcjax.units import parse_bytes, parse_seconds, parse_watts


@dataclass(frozen=True)
class Claims:
    """What the article says of one network."""

    name: str
    all_reduce_s: float
    utilisation: float  # 0..1
    tokens_per_s: float
    network_w: float
    run_usd: float

    @property
    def exposed_share(self) -> float:
        """Time not computing over time computing, if that is what utilisation means."""
        return (1 - self.utilisation) / self.utilisation


@dataclass(frozen=True)
class Testbed:
    """What the article says of its prototype."""

    ranks: int
    size_bytes: float
    peak_share: float  # 0..1, of theoretical peak bandwidth


@dataclass(frozen=True)
class Scaling:
    """What the article says of its largest clusters."""

    ranks: int
    hierarchical_utilisation: float  # 0..1, of peak FLOPS
    flat_efficiency: float  # 0..1, of linear scaling


@dataclass(frozen=True)
class Article:
    """The article's table, and what its text says beside it."""

    ranks: int
    size_bytes: float
    fat_tree: Claims
    dragonfly: Claims
    mrc: Claims
    throughput_gain: float  # of MRC over the fat tree, 0.5 is half more
    power_gain: float
    latency_factor: float  # all-reduce of the fat tree over that of MRC
    cost_left: float  # of a run on MRC over one on the fat tree
    testbed: Testbed
    scaling: Scaling

    @property
    def networks(self) -> tuple[Claims, ...]:
        """Its three columns."""
        return self.fat_tree, self.dragonfly, self.mrc


def load_article(text: str | None = None) -> Article:
    """Read the claims; without a text, those that come with the package."""
    if text is None:
        file = resources.files("mrcjax.comparison").joinpath("article.toml")
        text = file.read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    return Article(
        ranks=raw["ranks"],
        size_bytes=float(parse_bytes(raw["size"])),
        fat_tree=_claims(raw["fat_tree"]),
        dragonfly=_claims(raw["dragonfly"]),
        mrc=_claims(raw["mrc"]),
        throughput_gain=raw["said"]["throughput_gain"],
        power_gain=raw["said"]["power_gain"],
        latency_factor=raw["said"]["latency_factor"],
        cost_left=raw["said"]["cost_left"],
        testbed=Testbed(
            ranks=raw["testbed"]["ranks"],
            size_bytes=float(parse_bytes(raw["testbed"]["size"])),
            peak_share=raw["testbed"]["peak_share"],
        ),
        scaling=Scaling(**raw["scaling"]),
    )


def _claims(raw: dict) -> Claims:
    return Claims(
        name=raw["name"],
        all_reduce_s=float(parse_seconds(raw["all_reduce"])),
        utilisation=raw["utilisation"],
        tokens_per_s=float(raw["tokens_per_s"]),
        network_w=float(parse_watts(raw["network_power"])),
        run_usd=float(raw["run_usd"]),
    )
