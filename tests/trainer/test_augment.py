import itertools

import pytest
import torch
from torch.nn import functional

from trainer.data.augment import Normalise, Policy, crop_and_flip

PADDING = 4


def images(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(1, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)


def augmented(count: int, seed: int) -> torch.Tensor:
    return crop_and_flip(images(count), PADDING, torch.Generator().manual_seed(seed))


def origins(before: torch.Tensor, after: torch.Tensor) -> list[tuple[int, int, bool]]:
    """Row offset, column offset and mirroring of each image, found by trying all of them."""
    padded = functional.pad(before, (PADDING,) * 4)
    found = []
    for index in range(len(before)):
        matches = []
        for row, column in itertools.product(range(2 * PADDING + 1), repeat=2):
            window = padded[index, :, row : row + 32, column : column + 32]
            for mirrored in (False, True):
                if torch.equal(after[index], window.flip(2) if mirrored else window):
                    matches.append((row, column, mirrored))
        assert len(matches) == 1, f"image {index} is not one crop of its original: {matches}"
        found += matches
    return found


def test_every_image_is_a_crop_of_its_own_original() -> None:
    found = origins(images(64), augmented(64, seed=1))
    rows, columns, mirrored = zip(*found, strict=True)
    # 64 draws of 9 values: offsets differ from image to image and reach both ends.
    assert {0, 8} <= set(rows)
    assert {0, 8} <= set(columns)
    assert 16 < sum(mirrored) < 48


def test_shape_and_type_are_kept() -> None:
    result = augmented(5, seed=1)
    assert result.shape == (5, 3, 32, 32)
    assert result.dtype == torch.uint8


def test_seed_decides() -> None:
    assert torch.equal(augmented(16, seed=1), augmented(16, seed=1))
    assert not torch.equal(augmented(16, seed=1), augmented(16, seed=2))


def test_normalised_images_have_mean_0_and_deviation_1() -> None:
    pixels = images(64)
    scaled = pixels.float() / 255
    means = tuple(scaled.mean(dim=(0, 2, 3)).tolist())
    deviations = tuple(scaled.std(dim=(0, 2, 3), correction=0).tolist())
    result = Normalise(means, deviations)(pixels)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(
        result.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("name", ["randaugment", "trivial"])
def test_policy_follows_from_the_seed_and_leaves_the_generator_of_the_rank(name: str) -> None:
    images = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8)
    policy, state = Policy(name), torch.get_rng_state()

    def changed(seed: int) -> torch.Tensor:
        return policy(images, torch.Generator().manual_seed(seed))

    once = changed(1)
    assert (once.dtype, once.shape) == (images.dtype, images.shape)
    assert torch.equal(once, changed(1))
    assert not torch.equal(once, changed(2))
    assert not torch.equal(once, images)
    assert torch.equal(torch.get_rng_state(), state)
