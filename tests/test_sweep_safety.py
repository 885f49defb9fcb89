"""Files of sweeps with several processes: killed writers, readers, full disks, damaged files."""

import os
import subprocess

import pytest
from forks import run_script

HEAD = """
    import h5py, numpy as np
    from mrcjax.archive import ArchiveError, Axis, sweep_writer
    from mrcjax.archive.sweep import writer as writing
    from sweeps import point
    axes = (Axis("network.kind", {"network.kind": ["fat_tree", "flat_rails"]}),
            Axis("seed", {"seed": range(500)}))
    """


def test_fifty_kills_lose_nothing(tmp_path):
    """Batches of two points; killed anywhere, and a quarter of a writer's time it is folding."""
    output = run_script(
        HEAD,
        """
        random.seed(1)
        writing.FOLDING_SHARE = 0.3
        finished, opened = set(), 0
        with sweep_writer(path, axes):
            pass
        for trial in range(50):
            def write(tell):
                with sweep_writer(path, axes, resume=True) as writer:
                    places = [at for at in np.ndindex(2, 500) if f"id{at}" not in writer.done]
                    for batch in zip(places[::2], places[1::2]):
                        writer.add(point(*at, ranks=100) for at in batch)
                        tell("\\n".join(f"id{at}" for at in batch))
            # at least so many points, then any moment: in a batch, a fold, or the start
            finished |= {*killed(write, random.uniform(0, 0.1), lines=2 * (trial % 3))}
            with h5py.File(path) as file:
                assert file["time_s"].shape == (2, 500)
            sweep = archive.load_sweep(path)
            there = set(sweep["id"].ravel())
            assert finished <= there, finished - there
            for at in list(sweep.places("done"))[-3:]:
                wanted = point(*at, ranks=100)
                assert sweep["time_s"][at] == wanted.values["time_s"]
                assert (sweep.finish_s(at) == wanted.finish_s).all()
            opened += 1
        print(len(finished), opened)
        """,
        tmp_path,
    )
    finished, opened = map(int, output.split())
    assert opened == 50
    assert finished >= 2 * sum(trial % 3 for trial in range(50))


def test_readers_of_a_growing_sweep_see_all_that_was_there(tmp_path):
    """Two readers load at random while a writer folds as often as it can."""
    output = run_script(
        HEAD,
        """
        writing.FOLDING_SHARE = 1e9
        def read():
            before, loads = 0, 0
            while before < 30:
                sweep = archive.load(path)
                places = list(sweep.places("done"))
                assert len(places) >= before, (len(places), before)
                assert all(sweep["time_s"][at] == 0.5 + at[1] * 100 for at in places)
                for at in places[-2:]:
                    assert (sweep.finish_s(at) == point(*at).finish_s).all()
                before, loads = len(places), loads + 1
            print(loads)
        with sweep_writer(path, axes) as writer:
            children = [forked(read) for reader in range(2)]
            for i in range(30):
                writer.add([point(0, i)])
                writing.FOLDING_SHARE = 1e9 if i % 3 else 0
        assert all([is_done(child) for child in children])
        """,
        tmp_path,
    )
    assert all(int(loads) > 3 for loads in output.split())


def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path):
    output = run_script(
        HEAD,
        """
        ready, go_on = os.pipe(), os.pipe()
        def write():
            with sweep_writer(path, axes) as writer:
                writer.add([point(0, 0)])
                os.write(ready[1], b"x")
                os.read(go_on[0], 1)
        child = forked(write)
        os.read(ready[0], 1)
        for resume in (False, True):
            try:
                with sweep_writer(path, axes, resume=resume):
                    print("began")
            except ArchiveError as error:
                print("other" if f"process (id {child})" in str(error) else error)
        assert len(list(archive.load(path).places("done"))) == 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with sweep_writer(path, axes, resume=True) as writer:
            print(writer.done)
        """,
        tmp_path,
    )
    assert output.splitlines() == ["other", "other", "{'id(0, 0)': (0, 0)}"]


FULL = """
    def fill(resume):
        added = 0
        try:
            with sweep_writer(path, axes, resume=resume) as writer:
                for at in np.ndindex(2, 500):
                    if f"id{at}" not in writer.done:
                        writer.add([point(*at, ranks=4000)])
                        added += 1
        except ArchiveError as error:
            print("ERROR", error)
        return added

    added = fill(False)
    sweep = archive.load(path)
    assert len(list(sweep.places("done"))) == added > 10, added
    for at in sweep.places("done"):
        assert (sweep.finish_s(at) == point(*at, ranks=4000).finish_s).all()
    assert fill(True) == 0
    """
SAFE = "free space and go on with --resume; every point that was finished is kept"


def test_a_full_disk_loses_nothing(tmp_path):
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", tmp_path], capture_output=True
        ).returncode
    ):
        pytest.skip("needs a small file system of its own")
    try:
        output = run_script(HEAD, FULL, tmp_path)
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
    assert output.count(f"could not be written (no space left on device); {SAFE}") == 2


def test_a_limit_on_files_loses_nothing(tmp_path):
    """Segments fit, the file in their place does not: points are taken on until the end."""
    limit = """
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, -1))
    axes = (axes[0], Axis("seed", {"seed": range(30)}))
    """
    body = FULL.replace("(2, 500)", "(2, 30)").replace("== added > 10", "== added == 60")
    output = run_script(HEAD, limit + body, tmp_path)
    assert output.count(f"could not be written (file too large); {SAFE}") == 2


@pytest.mark.parametrize("kind", ["sweep", "runs"])
def test_damaged_files_are_refused_or_whole(tmp_path, kind):
    """Cut short, bits turned over, stretches overwritten; read in a process that may not crash."""
    output = run_script(
        HEAD,
        f"""
        from test_archive import write_one
        def read_all():
            stored = archive.load(path)
            if isinstance(stored, archive.Sweep):
                return stored.rows(), stored.check(), stored["finish_s"], stored.coords
            for run in stored.runs.values():
                run.to_json(), run.link_utilisation, run.link_name(0), run.spec
        def read_or_refuse():
            signal.alarm(20)
            try:
                read_all()
            except ArchiveError as error:
                assert str(path) in str(error)
        if {kind == "sweep"}:
            with sweep_writer(path, (axes[0], Axis("seed", {{"seed": [0, 1]}}))) as writer:
                writer.add([point(0, 0, ranks=2000), point(1, 1, ranks=20)])
        else:
            write_one(path, num_links=2000)
        whole = path.read_bytes()
        rng = np.random.default_rng(5)
        for case in range(30):
            content = bytearray(whole)
            at = int(rng.integers(len(content)))
            if case % 3 == 0:
                del content[at:]
            elif case % 3 == 1:
                content[at] ^= 1 << int(rng.integers(8))
            else:
                content[at : at + 50] = rng.bytes(len(content[at : at + 50]))
            path.write_bytes(content)
            print(is_done(forked(read_or_refuse)))
        """,
        tmp_path,
    )
    assert output.split() == ["True"] * 30
