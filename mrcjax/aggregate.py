"""An all-to-all in seconds at any size: max-min fair rates on classes of alike flows.

All flows start together, as by a rank that posts everything at once. Each class drains at its
max-min fair rate; when some have ended the rates are computed afresh. The latency of a way is
added at its end.
"""

import jax.numpy as jnp
import numpy as np

from mrcjax.case import Case
from mrcjax.engine import Times
from mrcjax.network.symmetry import Quotient, all_to_all_classes
from mrcjax.spec import NodeRails, Nvl, Spec, SpecError

ALIKE = 1e-9  # shares and ends that differ by less, relative, are one
RULE = "max-min"


def check(spec: Spec) -> None:
    """Refuse what classes of alike flows cannot show; raises SpecError."""
    collective = spec.the_collective
    ranks = spec.network.ranks
    for where, value, is_fit, remedy in (
        ("collective.kind", collective.kind, collective.kind == "all_to_all", "all_to_all"),
        ("collective.algorithm", collective.algorithm, collective.algorithm == "direct", "direct"),
        (
            "collective.group_size",
            collective.group_size,
            collective.group_size in (None, ranks),
            None,
        ),
        ("collective.element_bytes", collective.element_bytes, not collective.element_bytes, None),
        ("network.node_size", spec.network.node_size, spec.network.node_size == 1, None),
        (
            "network.reduction_rate",
            spec.network.reduction_rate,
            spec.network.reduction_rate is None,
            None,
        ),
        ("engine.kind", spec.engine.kind, spec.engine.kind == "chunk", None),
        (
            "engine.switching",
            spec.engine.switching,
            spec.engine.switching == "cut_through",
            "cut_through",
        ),
        ("faults.late", len(spec.faults.late), not spec.faults.late, None),
    ):
        if not is_fit:
            key = where.rpartition(".")[2]
            use = f'use {key} = "{remedy}", or ' if remedy else f"leave {key} out, or "
            if key == "node_size" and isinstance(spec.network, NodeRails | Nvl):
                use = ""  # their nodes are what makes them
            raise SpecError(
                "does not go with engine.aggregate, which takes all ranks and flows for alike",
                where=where,
                value=value,
                remedy=f"{use}leave aggregate out",
            )


def times_of(case: Case) -> Times:
    """Time an all-to-all by classes. Raises SpecError where links that should be alike differ."""
    network = case.network
    capacity = np.asarray(case.params.capacity_bytes_per_s, np.float64)
    latency = np.asarray(case.params.latency_s, np.float64)
    if network.ranks == 1:
        return Times(jnp.zeros(()), jnp.zeros(1), jnp.zeros(network.num_links))
    quotient = all_to_all_classes(case.wiring, capacity, latency, _flows_of_port(case))
    pair_bytes = case.size_bytes / network.ranks
    sizes = quotient.part * pair_bytes
    ends_s = drain(quotient, sizes) + quotient.latency_s
    at_site = np.zeros(int(quotient.sites.max()) + 1)
    for end in quotient.ends.T:
        np.maximum.at(at_site, end, ends_s)
    finish = at_site[quotient.sites].max(axis=0) + float(case.params.endpoint_latency_s)
    count = len(quotient.capacity_bytes_per_s)
    on_kind = _summed(quotient.kinds, quotient.loads * sizes[:, None], count)
    link_bytes = on_kind[quotient.kind_of_link]
    return Times(jnp.asarray(finish.max()), jnp.asarray(finish), jnp.asarray(link_bytes))


def _flows_of_port(case: Case) -> np.ndarray | None:
    """Peers that a rank sends to over each port; None where every pair uses all of them."""
    if case.spec.the_collective.stripe or case.network.relay is not None:
        return None
    lanes = case.schedule.phases[0].lanes
    lane = np.arange(case.network.ranks - 1) % lanes
    return np.bincount(lane % case.network.ports, minlength=case.network.ports)


def drain(quotient: Quotient, size_bytes: np.ndarray) -> np.ndarray:
    """When the last byte of each class has left, (classes,) seconds; infinite over a dead link."""
    left = size_bytes.astype(float)
    ends, now = np.zeros(len(left)), 0.0
    live = left > 0
    while live.any():
        rates = max_min_rates(quotient, live)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(live, left / rates, np.inf)
        step = needed.min()
        if not np.isfinite(step):
            ends[live] = np.inf
            break
        done = live & (needed <= step * (1 + ALIKE))
        now += step
        ends[done] = now
        left = np.where(live, left - rates * step, left)
        live &= ~done
    return ends


def max_min_rates(quotient: Quotient, live: np.ndarray) -> np.ndarray:
    """Max-min fair rate of one flow of each live class, bytes/s; 0 for the others.

    Progressive filling: each pass freezes the flows of every link whose fair share is the least
    that any of its flows sees.
    """
    kinds, count = quotient.kinds, len(quotient.capacity_bytes_per_s)
    rates, open_, spare = np.zeros(len(live)), live.copy(), quotient.capacity_bytes_per_s.copy()
    used = quotient.loads > 0
    while open_.any():
        weight = _summed(kinds, np.where(open_[:, None], quotient.loads, 0.0), count)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(weight > 0, np.maximum(spare, 0.0) / weight, np.inf)
        sees = np.where(used, share[kinds], np.inf).min(axis=1)
        least = np.full(count, np.inf)
        on = used & open_[:, None]
        np.minimum.at(least, kinds[on], np.broadcast_to(sees[:, None], kinds.shape)[on])
        binds = share <= least * (1 + ALIKE)
        frozen = open_ & (on & binds[kinds]).any(axis=1)
        rates[frozen] = sees[frozen]
        spare -= _summed(kinds, np.where(frozen, rates, 0.0)[:, None] * quotient.loads, count)
        open_ &= ~frozen
    return rates


def _summed(kinds: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(kinds.reshape(-1), values.reshape(-1), count)
