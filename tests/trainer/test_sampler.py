import pytest
import torch

from trainer.data.sampler import ShardedSampler, balanced_subset, training_and_validation
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


def dealt(seen: int, batch: int, world_size: int) -> list[int]:
    """What all ranks together get of the rest of an epoch of 1003 images, step by step."""
    ranks = [
        ShardedSampler(1003, batch, rank, world_size, 1).epoch(1, seen)
        for rank in range(world_size)
    ]
    return [image for step in zip(*ranks, strict=True) for part in step for image in part.tolist()]


def test_rest_of_an_epoch_goes_on_where_it_was() -> None:
    whole = [list(ShardedSampler(1003, 10, rank, 4, 1).epoch(1)) for rank in range(4)]
    for steps in (0, 1, 12, 25):
        for rank in range(4):
            sampler = ShardedSampler(1003, 10, rank, 4, 1)
            assert sampler.batches_after(steps * 40) == 25 - steps
            rest = list(sampler.epoch(1, steps * 40))
            assert list(map(torch.Tensor.tolist, rest)) == [
                batch.tolist() for batch in whole[rank][steps:]
            ]


@pytest.mark.parametrize(("batch", "world_size"), [(10, 1), (10, 3), (7, 4), (100, 8)])
def test_another_world_is_dealt_the_images_that_are_left(batch: int, world_size: int) -> None:
    seen = {image for step in range(12) for image in dealt(0, 10, 4)[40 * step : 40 * (step + 1)]}
    rest = dealt(480, batch, world_size)
    assert len(rest) == (1003 - 480) // (batch * world_size) * batch * world_size
    assert len(set(rest)) == len(rest)
    assert not seen & set(rest)


def test_random_numbers_follow_from_the_place_in_the_epoch() -> None:
    def numbers(rank: int, epoch: int, seen: int = 0) -> list[float]:
        sampler = ShardedSampler(1003, 10, rank, 4, 1)
        return [float(torch.rand((), generator=g)) for g in sampler.generators(epoch, seen)]

    assert numbers(0, 1)[5:] == numbers(0, 1, 200)
    together = [*numbers(0, 1), *numbers(1, 1), *numbers(0, 2)]
    assert len(set(together)) == len(together) == 75


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


def test_validation_split_is_balanced_fixed_seeded_and_apart_from_training() -> None:
    labels = torch.cat([torch.arange(1000) % 10, torch.full((3,), 10)])
    train, held_out = training_and_validation(labels, None, 0.05, seed=1)
    assert labels[held_out].bincount().tolist() == [5] * 10 + [1]
    assert torch.cat([train, held_out]).sort().values.tolist() == list(range(1003))
    again = training_and_validation(labels, None, 0.05, seed=1)
    assert torch.equal(again[1], held_out)
    assert not torch.equal(training_and_validation(labels, None, 0.05, seed=2)[1], held_out)
    # However many of the others are trained on, the split is the same.
    few, same = training_and_validation(labels, 22, 0.05, seed=1)
    assert torch.equal(same, held_out)
    assert labels[few].bincount().tolist() == [2] * 11
    assert not set(few.tolist()) & set(held_out.tolist())


def test_without_a_validation_split_all_images_are_trained_on() -> None:
    labels = torch.arange(100) % 10
    train, held_out = training_and_validation(labels, 100, 0.0, seed=1)
    assert (train.tolist(), held_out.tolist()) == (list(range(100)), [])


def test_images_that_are_held_out_cannot_be_trained_on() -> None:
    labels = torch.arange(100) % 10
    with pytest.raises(ConfigError, match="90 at the most, or for validation_fraction 0"):
        training_and_validation(labels, 91, 0.1, seed=1)
    with pytest.raises(ConfigError, match="class 10 has 1 images"):
        training_and_validation(torch.cat([labels, torch.tensor([10])]), None, 0.1, seed=1)
