"""Data-parallel training of image classifiers, as it runs inside the trainer container.

Everything that comes in and goes out is a file of the run directory: `config.json` in,
`world.json`, `metrics.jsonl`, `logs/` and `checkpoints/` out.
"""
