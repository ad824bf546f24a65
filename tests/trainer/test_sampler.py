import pytest
import torch

from trainer.data.sampler import ShardedSampler, balanced_subset
from trainer.errors import ConfigError


def shards(images: int, batch: int, world_size: int, epoch: int, seed: int = 1) -> list[list[int]]:
    return [
        torch.cat(list(ShardedSampler(images, batch, rank, world_size, seed).epoch(epoch))).tolist()
        for rank in range(world_size)
    ]


def test_ranks_see_disjoint_shards_of_equal_size() -> None:
    parts = shards(images=1003, batch=10, world_size=4, epoch=1)
    assert [len(part) for part in parts] == [250] * 4
    together = [index for part in parts for index in part]
    assert len(set(together)) == 1000
    assert set(together) <= set(range(1003))


def test_every_batch_is_full() -> None:
    sampler = ShardedSampler(images=1003, batch_per_rank=10, rank=1, world_size=4, seed=1)
    assert [len(batch) for batch in sampler.epoch(1)] == [10] * 25
    assert sampler.batches == 25


def test_epochs_are_shuffled_anew_and_leave_out_others() -> None:
    first = shards(images=1003, batch=10, world_size=4, epoch=1)
    second = shards(images=1003, batch=10, world_size=4, epoch=2)
    assert first != second
    left_out = [set(range(1003)) - {i for part in parts for i in part} for parts in (first, second)]
    assert left_out[0] != left_out[1]


def test_order_follows_from_seed_and_epoch_alone() -> None:
    assert shards(100, 5, 2, epoch=3) == shards(100, 5, 2, epoch=3)
    assert shards(100, 5, 2, epoch=3, seed=1) != shards(100, 5, 2, epoch=3, seed=2)


def test_batch_larger_than_the_shard_is_refused() -> None:
    assert ShardedSampler(128, 64, 0, 2, 1).batches == 1
    with pytest.raises(ConfigError, match="needs 128 images for a step, there are 127"):
        ShardedSampler(127, 64, 0, 2, 1)


def test_subset_is_balanced_fixed_and_seeded() -> None:
    labels = torch.arange(1000) % 10
    chosen = balanced_subset(labels, 203, seed=1)
    assert len(chosen.unique()) == 203
    assert labels[chosen].bincount().tolist() == [21, 21, 21, 20, 20, 20, 20, 20, 20, 20]
    assert torch.equal(chosen, balanced_subset(labels, 203, seed=1))
    assert not torch.equal(chosen, balanced_subset(labels, 203, seed=2))


def test_subset_of_everything_is_everything() -> None:
    labels = torch.arange(100) % 10
    assert torch.equal(balanced_subset(labels, 100, seed=1), torch.arange(100))


def test_subset_larger_than_a_class_is_refused() -> None:
    labels = torch.tensor([0] * 90 + [1] * 10)
    with pytest.raises(ConfigError, match="10 of class 1"):
        balanced_subset(labels, 22, seed=1)
