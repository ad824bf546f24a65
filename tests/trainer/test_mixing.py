import pytest
import torch

from trainer.data.augment import Mixing

LABELS = torch.arange(8) % 4


def images() -> torch.Tensor:
    """Every pixel of an image has the image's number."""
    return torch.arange(8.0).view(8, 1, 1, 1).expand(8, 3, 16, 16).contiguous()


def mixed(mixup: float, cutmix: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    mixing = Mixing(classes=4, mixup=mixup, cutmix=cutmix)
    return mixing(images(), LABELS, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(5))
def test_mixup_blends_labels_as_it_blends_pixels(seed: int) -> None:
    result, targets = mixed(mixup=0.5, cutmix=0.0, seed=seed)
    assert (result == result[:, :1, :1, :1]).all()
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(8))
    # Half of the images are their own partner's reverse; the mean of all pixels stays.
    assert result.mean() == pytest.approx(3.5, abs=1e-5)
    own = targets[torch.arange(8), LABELS]
    moved = result[:, 0, 0, 0] != torch.arange(8.0)
    share = own[moved & (own < 1)]
    assert (share == share[0]).all() if len(share) else True


@pytest.mark.parametrize("seed", range(5))
def test_cutmix_labels_are_the_shares_of_area(seed: int) -> None:
    result, targets = mixed(mixup=0.0, cutmix=1.0, seed=seed)
    for number in range(8):
        values, counts = result[number, 0].unique(return_counts=True)
        expected = torch.zeros(4)
        for value, count in zip(values.long().tolist(), counts.tolist(), strict=True):
            expected[LABELS[value]] += count / 256
        torch.testing.assert_close(targets[number], expected)


def test_both_are_used_when_both_are_asked_for() -> None:
    pasted = [bool((mixed(1.0, 1.0, seed)[0].frac() == 0).all()) for seed in range(20)]
    assert 3 < sum(pasted) < 17


def test_seed_decides() -> None:
    assert torch.equal(mixed(1.0, 1.0, 3)[0], mixed(1.0, 1.0, 3)[0])
    assert not torch.equal(mixed(1.0, 1.0, 3)[1], mixed(1.0, 1.0, 4)[1])
