"""Questions, each with its command: `python -m experiments` lists and runs them."""
