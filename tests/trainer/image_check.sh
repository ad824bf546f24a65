#!/bin/bash
# In a container of a trainer image, any target: Horovod has what the image's label promises, and
# two ranks hear each other over MPI alone and train on the processor. Needs no network, no data set and no GPU.
#
#   docker run --rm --init --network none --cap-add SYS_PTRACE \
#       --volume "$PWD/trainer:/opt/trainyard/lib/trainer:ro" \
#       --volume "$PWD/tests/trainer:/tests:ro" IMAGE /tests/image_check.sh 'tcp ucx nccl'
set -euo pipefail

transports=$1
export TRAINYARD_RUN_DIR=/tmp/run TRAINYARD_CONFIG_DIR=/tmp/run
mkdir -p "$TRAINYARD_RUN_DIR/logs"

python3 - "$transports" <<'PYTHON'
import sys

import horovod.torch as hvd
import torch

built = {"mpi": hvd.mpi_built(), "nccl": bool(hvd.nccl_built())}
print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, Horovod with {built}")
assert built["mpi"]
assert built["nccl"] == ("nccl" in sys.argv[1].split())
PYTHON

mpirun -n 2 --map-by :OVERSUBSCRIBE --bind-to none /opt/trainyard/bin/hello_mpi

python3 -m trainer data synthetic --out /tmp/data/synthetic
cat >"$TRAINYARD_RUN_DIR/config.json" <<JSON
{"model": "cnn_a", "dataset": "synthetic", "data_dir": "/tmp/data", "run_dir": "$TRAINYARD_RUN_DIR",
 "engine": "horovod", "backend": "gloo", "precision": "fp32", "epochs": 1, "batch_per_rank": 32,
 "learning_rate": 0.001, "weight_decay": 0.05, "warmup_fraction": 0.1, "label_smoothing": 0.0,
 "train_images": 2560, "seed": 1, "log_every_steps": 10, "world_size": 2, "hosts": ["$(hostname)"]}
JSON
status=0
/opt/trainyard/bin/launch -n 2 --map-by :OVERSUBSCRIBE --bind-to none --mca mpi_yield_when_idle 1 \
    -x OMP_NUM_THREADS=1 -x HOROVOD_CYCLE_TIME=100 -x TRAINYARD_EXCHANGE_NICE=10 \
    -x MALLOC_MMAP_THRESHOLD_=1073741824 -x MALLOC_TRIM_THRESHOLD_=4294967296 /opt/trainyard/bin/rank || status=$?
cat "$TRAINYARD_RUN_DIR/logs/"*.log
[ "$status" = 0 ]

python3 - "$TRAINYARD_RUN_DIR/metrics.jsonl" <<'PYTHON'
import json
import sys

with open(sys.argv[1]) as stream:
    lines = [json.loads(line) for line in stream]
losses = [line["loss"] for line in lines if line["event"] == "step"]
print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {lines[-1]['images_per_second']:.0f} images/s")
assert lines[-1]["event"] == "end"
assert losses[-1] < losses[0]
PYTHON
