"""Is a plain alpha-beta ring a credible baseline? Emulate SimAI's measured 1 GiB row."""

import argparse
from pathlib import Path

import mrcjax

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
NOMINAL_BYTES_PER_S = 8 * 48.5e9
# github.com/aliyun/SimAI, inputs/ratio/nic_ratio.csv: share of the nominal bus bandwidth.
MEASURED = {16: 0.92, 64: 0.90, 128: 0.76, 256: 0.74, 512: 0.563, 1024: 0.315}


def emulated(most: int = 1024) -> dict[int, float]:
    """Ranks -> bus bandwidth over nominal, up to so many ranks."""
    shares = {}
    for ranks in (ranks for ranks in MEASURED if ranks <= most):
        spec = mrcjax.load_spec(HERE / "spec.toml", set=[f"network.ranks={ranks}"])
        shares[ranks] = mrcjax.run(spec).busbw_bytes_per_s / NOMINAL_BYTES_PER_S
    return shares


def main() -> None:
    """Print both rows and their ratio; write results/simai_ring.txt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="up to 128 ranks")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    asked = parser.parse_args()
    shares = emulated(128 if asked.short else 1024)
    lines = ["python experiments/simai_ring/run.py", "ranks   measured   emulated   ratio"]
    for ranks, share in shares.items():
        measured = MEASURED[ranks]
        lines.append(f"{ranks:5d}   {measured:8.3f}   {share:8.3f}   {share / measured:5.3f}")
    text = "\n".join(lines)
    print(text)
    asked.results.mkdir(parents=True, exist_ok=True)
    (asked.results / "simai_ring.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
