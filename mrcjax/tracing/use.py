"""How much of each link is in use over time."""

import numpy as np

from mrcjax.outcome import LinkUse
from mrcjax.tracing.recording import Recording

BINS = 240
LINKS = 48  # rows that can be told apart


def use_over_time(recording: Recording, *, bins: int = BINS, links: int = LINKS) -> LinkUse:
    """Return the part of each sampled link that is in use in equal parts of the run's time.

    Of more links than asked for those that are sampled first are taken, of every tier some.
    """
    run, uses = recording.run, recording.uses
    edges = np.linspace(0.0, run.time_s, bins + 1)
    chosen = _chosen(recording, links)
    share = np.zeros((len(chosen), bins))
    for row, link in enumerate(chosen.tolist()):
        mine = uses.link == link
        share[row] = _spent(uses.begin_s[mine], uses.end_s[mine], uses.share[mine], edges)
    width = run.time_s / bins
    names = tuple(run.link_name(int(link)) for link in chosen)
    return LinkUse(edges, names, share / width if width > 0 else share)


def _chosen(recording: Recording, count: int) -> np.ndarray:
    """Links of all tiers, as many of each as there is room for."""
    tiers = [t for t in recording.run.tiers if t.count]
    blocks = []
    for tier in tiers:
        inside = (recording.links >= tier.first) & (recording.links < tier.first + tier.count)
        if inside.any():
            blocks.append(recording.links[inside])
    room = max(count // max(len(blocks), 1), 1)
    return np.concatenate([np.sort(block[:room]) for block in blocks] or [np.zeros(0, int)])


def _spent(begin: np.ndarray, end: np.ndarray, share: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Seconds in use inside each bin, (bins,): the work done by its end less that by its start."""
    # work done by time t is piecewise linear, with these corners
    corners = np.concatenate([begin, end])
    slopes = np.concatenate([share, -share])
    order = np.argsort(corners, kind="stable")
    corners, level = corners[order], np.cumsum(slopes[order])
    if not corners.size:
        return np.zeros(edges.size - 1)
    done = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(corners))])
    return np.diff(np.interp(edges, corners, done))
