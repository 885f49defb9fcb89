"""Compiled programs: each once, and only so many that the process has memory mappings for them."""

import threading

import jax
import jax.numpy as jnp
import pytest

import mrcjax
from mrcjax import programs

TORI = (
    '[network]\nkind = "torus"\ndims = [4, 2]\nlink_rate = "400 Gbit/s"\nlatency = "500 ns"\n'
    '[collective]\nkind = "all_reduce"\nalgorithm = "rings"\nsize = "1 MB"\n'
    '[sweep]\n"network.dims" = [[3, 2], [5, 2], [7, 2], [4, 3]]\n'
)


def lower(factor: int):
    return jax.jit(lambda x: factor * x).lower(jnp.zeros(3))


def test_many_who_ask_for_a_program_get_one():
    lowered = []

    def ask():
        programs.compiled("one program", lambda: lowered.append(1) or lower(2))

    before = programs.count()
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(lowered), programs.count() - before) == (1, 1)


def test_a_program_that_fails_is_tried_again():
    def fails():
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            programs.compiled("fails", fails)
    assert programs.compiled("fails", lambda: lower(3))(jnp.ones(3)).tolist() == [3, 3, 3]


@pytest.mark.skipif(not programs.mappings(), reason="this system does not tell mappings of memory")
def test_programs_are_forgotten_before_there_are_too_many_mappings(monkeypatch):
    monkeypatch.setattr(programs, "LOOK_EVERY", 1)
    kept = programs.compiled("kept by its user", lambda: lower(5))
    monkeypatch.setattr(programs, "MOST_MAPPINGS", programs.mappings() + 200)
    held = []
    for k in range(100):
        programs.compiled(("forgotten", k), lambda k=k: lower(1000 + k))
        held.append(programs.mappings())
    assert max(held) < programs.MOST_MAPPINGS + 100
    assert len(programs.known()) < 100
    assert kept(jnp.ones(3)).tolist() == [5, 5, 5]


def test_a_sweep_that_forgets_every_program_gives_the_same(tmp_path, monkeypatch):
    plain = mrcjax.sweep(TORI, tmp_path / "plain.h5")
    monkeypatch.setattr(programs, "LOOK_EVERY", 1)
    monkeypatch.setattr(programs, "MOST_MAPPINGS", 1 if programs.mappings() else -1)
    programs.forget()
    before = programs.count()
    forgetful = mrcjax.sweep(TORI, tmp_path / "forgetful.h5")
    assert programs.count() - before >= 4
    assert not programs.known()
    assert {*plain.status.astype(str)} == {"done"}
    assert plain.results_hash == forgetful.results_hash
