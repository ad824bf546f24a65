"""A project of one's own: fits a small network to made numbers, on every rank of a run."""

import argparse
import json
import os
import signal
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--lr", type=float, default=0.01)
options = parser.parse_args()

distributed.init_process_group("gloo")  # finds ranks and addresses in the environment
rank, world_size = distributed.get_rank(), distributed.get_world_size()
stop = torch.zeros(1)
signal.signal(signal.SIGTERM, lambda number, frame: stop.fill_(1))

model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
done = 0
checkpoint = Path(os.environ["TRAINYARD_CHECKPOINT_DIR"]) / "last.pt"
if checkpoint.exists():  # on every node, where a run goes on
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    done = state["step"]
parallel = DistributedDataParallel(model)  # gives every rank the weights of rank 0

for step in range(done + 1, options.steps + 1):
    made = torch.Generator().manual_seed(step * world_size + rank)
    inputs = torch.randn(256, 8, generator=made)
    loss = nn.functional.mse_loss(parallel(inputs), inputs.abs().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    asked = stop.clone()
    distributed.all_reduce(asked)  # who was asked to stop stops all at the same step
    if rank == 0:
        with open(os.environ["TRAINYARD_METRICS"], "a") as metrics:
            line = {"step": step, "steps": options.steps, "loss": loss.item()}
            metrics.write(json.dumps(line) + "\n")
        if asked or step % 20 == 0 or step == options.steps:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").rename(checkpoint)  # whole, or not at all
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    if asked:
        raise SystemExit(143)  # as a program that SIGTERM ends

distributed.destroy_process_group()
