import json
import subprocess

import pytest
import torch
from torch.nn import functional

from trainer.errors import ConfigError
from trainer.models import build_model, parameter_count
from trainer.models.vit import ViT, ViTSize
from trainer.optimizer import adamw
from trainer.step import autocast

# Patches 48*192+192; positions 64*192; six blocks of two norms 2*384, attention 192*576+576 and
# 192*192+192, perceptron 192*768+768 and 768*192+192; last norm 384; head 192*10+10.
VIT_PARAMETERS = 9_408 + 12_288 + 6 * (768 + 111_168 + 37_056 + 148_224 + 147_648) + 384 + 1_930


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def test_vit_has_the_size_it_should() -> None:
    model = build_model("vit", classes=10, image_size=32)
    assert parameter_count(model) == VIT_PARAMETERS == 2_693_194
    assert model(images(3)).shape == (3, 10)


def test_class_count_decides_the_logits() -> None:
    assert build_model("vit", classes=100, image_size=32)(images(2)).shape == (2, 100)


def test_unknown_model_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match="no model 'vitt'; there are: vit"):
        build_model("vitt", classes=10, image_size=32)


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(ConfigError, match="32 x 32"):
        build_model("vit", classes=10, image_size=28)


@pytest.mark.parametrize(("patch", "heads"), [(5, 2), (4, 5)])
def test_sizes_that_do_not_fit_are_refused(patch: int, heads: int) -> None:
    with pytest.raises(ValueError, match="do not"):
        ViTSize(image_size=32, patch_size=patch, width=32, depth=1, heads=heads)


def test_patch_embedding_is_a_strided_convolution() -> None:
    model = ViT(ViTSize(image_size=32, patch_size=4, width=16, depth=0, heads=2), classes=10)
    kernel = model.embed.weight.view(16, 3, 4, 4)
    convolved = functional.conv2d(images(2), kernel, model.embed.bias, stride=4)
    tokens = convolved.flatten(2).transpose(1, 2) + model.position_embedding
    expected = model.head(model.norm(tokens).mean(dim=1))
    torch.testing.assert_close(model(images(2)), expected, atol=1e-5, rtol=1e-5)


def test_order_of_patches_matters() -> None:
    model = build_model("vit", classes=10, image_size=32)
    upside_down = images(2).flip(2)
    assert not torch.allclose(model(images(2)), model(upside_down), atol=1e-4)


def test_bfloat16_computes_nearly_the_same() -> None:
    torch.manual_seed(1)
    model = build_model("vit", classes=10, image_size=32)
    exact = model(images(8))
    with autocast("bf16"):
        rounded = model(images(8))
    assert rounded.dtype == torch.bfloat16
    assert not torch.equal(rounded.float(), exact)
    # bfloat16 has 8 bits of mantissa: a relative error of 2**-8 in each of some 25 layers.
    assert (rounded.float() - exact).abs().max() < 25 * 2**-8 * exact.abs().max()


def test_only_weight_matrices_decay() -> None:
    model = build_model("vit", classes=10, image_size=32)
    optimizer = adamw(model, learning_rate=0.1, weight_decay=0.05)
    decay = {
        id(parameter): group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    by_name = {name: decay[id(parameter)] for name, parameter in model.named_parameters()}
    assert {name for name, value in by_name.items() if value == 0} == {
        name
        for name in by_name
        if name.endswith(("bias", "norm.weight")) or name == "position_embedding"
    }
    assert set(decay.values()) == {0.05, 0.0}


def test_models_command_lists_names_and_parameters() -> None:
    done = subprocess.run(
        ["python3", "-m", "trainer", "models", "--json"], capture_output=True, text=True, check=True
    )
    (vit,) = json.loads(done.stdout)
    assert vit["name"] == "vit"
    assert vit["parameters"] == 2_693_194
