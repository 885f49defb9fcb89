"""Finite fields of any prime power, as tables."""

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Field:
    """GF(q): elements are 0..q-1, the digits base p of an element are its polynomial.

    powers: (q - 1,) int, powers of a primitive element, from the power 0 on. plus, times: (q, q).
    """

    q: int
    powers: np.ndarray
    plus: np.ndarray
    times: np.ndarray


def prime_power(q: int) -> tuple[int, int] | None:
    """(p, n) with q = p^n and p prime, or None."""
    p = next((d for d in range(2, int(q**0.5) + 1) if q % d == 0), q)
    n, rest = 0, q
    while rest > 1 and rest % p == 0:
        n, rest = n + 1, rest // p
    return (p, n) if n and rest == 1 else None


def field(q: int) -> Field:
    """GF(q), q a prime power; ValueError for any other q."""
    parts = prime_power(q)
    if parts is None:
        raise ValueError(f"{q} is no prime power")
    p, n = parts
    digits = np.arange(q)[:, None] // p ** np.arange(n) % p
    plus = ((digits[:, None] + digits[None]) % p) @ p ** np.arange(n)
    powers = next(
        found
        for low in itertools.product(range(p), repeat=n)
        if (found := _powers_of_x(p, low)) is not None
    )
    log = np.zeros(q, int)
    log[powers] = np.arange(q - 1)
    times = powers[(log[:, None] + log[None]) % (q - 1)]
    times[0, :] = times[:, 0] = 0
    return Field(q, powers, plus, times)


def _powers_of_x(p: int, low: tuple[int, ...]) -> np.ndarray | None:
    """x^0, x^1, ... modulo x^n = sum of low[i] x^i over GF(p); None unless they are all elements.

    They are all non-zero elements exactly where the polynomial is primitive.
    """
    n = len(low)
    element, found = (1,) + (0,) * (n - 1), []
    for _ in range(p**n - 1):
        found.append(sum(digit * p**i for i, digit in enumerate(element)))
        top = element[-1]
        element = tuple(
            (before + top * digit) % p
            for before, digit in zip((0, *element[:-1]), low, strict=True)
        )
        if found[-1] == 0 or (element == (1,) + (0,) * (n - 1) and len(found) < p**n - 1):
            return None
    return np.asarray(found) if element == (1,) + (0,) * (n - 1) else None
