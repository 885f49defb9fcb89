"""Packets that get lost and are sent again: how many bytes each hop carries for one byte."""

import jax
import jax.numpy as jnp


def repeated(
    kept: jax.Array | None,
    window: jax.Array | None,
    links: tuple[jax.Array, ...],
    shares: jax.Array | None,
) -> list[jax.Array | None]:
    """Bytes that each hop carries per byte delivered; None where nothing gets lost.

    A packet lost on a link has used that link and those before it. With q lost of a path, selective
    repeat sends 1 / (1 - q) packets for one, go-back-N with window W (1 + (W - 1) q) / (1 - q);
    a hop carries what the hops before it let through. Entries: (lanes, ranks), or (paths, lanes,
    ranks) where the hop has several paths.

    Args:
        kept: (links + 1,) share of packets a link delivers. window: () or None, see `Params`.
        links: of every hop. shares: see `Route`.
    """
    if kept is None:
        return [None] * len(links)
    through = [kept[link] for link in links]
    whole = jnp.ones((), kept.dtype)
    for each in through:
        whole = whole * each
    sent = 1.0 / whole if window is None else (1.0 + (window - 1.0) * (1.0 - whole)) / whole
    factors: list[jax.Array | None] = []
    for link, each in zip(links, through, strict=True):
        factors.append(_on_hop(sent, link, shares))
        sent = sent * each
    return factors


def _on_hop(factor: jax.Array, link: jax.Array, shares: jax.Array | None) -> jax.Array:
    """A factor per path of a hop, or the mean over the paths of a hop that all of them share."""
    if factor.ndim <= link.ndim:
        return jnp.broadcast_to(factor, link.shape)
    return factor.mean(axis=0) if shares is None else (factor * shares).sum(axis=0)
