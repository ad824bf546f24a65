import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn
from torch.nn import functional

from trainer.errors import ConfigError
from trainer.models import OWN_MODELS, WithoutMemory, all_models, build_model, parameter_count
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


def test_only_a_model_of_torchvision_has_it_imported() -> None:
    """It takes a second and more, of every rank's time to the first step."""
    script = """
import sys, trainer.run
from trainer.models import build_model
build_model("vit", 10, 32)
assert "torchvision" not in sys.modules
build_model("resnet18", 10, 32)
assert "torchvision" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_class_count_decides_the_logits() -> None:
    assert build_model("vit", classes=100, image_size=32)(images(2)).shape == (2, 100)


def test_unknown_model_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match="no model 'vitt'; there are: cnn_a, cnn_b, vit, "):
        build_model("vitt", classes=10, image_size=32)


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(ConfigError, match="from 32 x 32 pixels on, in multiples of 16"):
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
    torch.manual_seed(1)
    model = build_model("vit", classes=10, image_size=32)
    # By whole patches of 4 pixels.
    moved = images(2).roll(4, dims=2)
    with torch.no_grad():
        model.position_embedding.normal_()
        assert not torch.allclose(model(images(2)), model(moved), atol=1e-4)
        model.position_embedding.zero_()
        torch.testing.assert_close(model(images(2)), model(moved), atol=1e-5, rtol=1e-4)


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


# One of each family, and those whose stem is something of its own.
FAMILIES = (
    *("cnn_a", "cnn_b", "vit", "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0"),
    *(
        "googlenet",
        "inception_v3",
        "maxvit_t",
        "mnasnet0_5",
        "mobilenet_v3_small",
        "regnet_y_400mf",
    ),
    *("vit_b_16", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "vgg11", "vgg11_bn"),
)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_takes_small_images(name: str) -> None:
    with WithoutMemory():
        model = build_model(name, classes=100, image_size=32)
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 100)


@pytest.mark.parametrize("name", ["efficientnet_b0", "mnasnet0_5"])
def test_heads_for_few_classes_begin_small(name: str) -> None:
    """Where torchvision has them begin the larger, the fewer classes there are."""
    *_, weight, _ = build_model(name, classes=10, image_size=32).parameters()
    assert weight.abs().max() < 0.03


def test_without_memory_is_the_first_use_of_torchvision() -> None:
    program = (
        "from trainer.models import WithoutMemory, build_model\n"
        "with WithoutMemory(): build_model('squeezenet1_1', 10, 32)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_resnet_keeps_the_resolution_of_small_images() -> None:
    with WithoutMemory():
        small = build_model("resnet18", classes=10, image_size=32)
        large = build_model("resnet18", classes=10, image_size=224)
        assert small.layer1(small.maxpool(small.conv1(torch.zeros(1, 3, 32, 32)))).shape[2:] == (
            *(32, 32),
        )
    # He et al. (2016) on ImageNet, but for the last layer: 11,689,512 with 1,000 classes.
    assert parameter_count(large) == 11_689_512 - 990 * 513
    # 64 kernels of 3 x 3 in place of 7 x 7, on three channels.
    assert parameter_count(small) == parameter_count(large) - 64 * 3 * (49 - 9)


def test_vision_transformer_of_torchvision_gets_small_patches() -> None:
    with WithoutMemory():
        model = build_model("vit_b_16", classes=10, image_size=32)
    assert model.conv_proj.kernel_size == model.conv_proj.stride == (4, 4)
    assert model.encoder.pos_embedding.shape[1] == 64 + 1


def test_edge_that_a_network_cannot_take_is_refused() -> None:
    with pytest.raises(ConfigError, match="vit_b_16 takes no images of 100 x 100 pixels"):
        build_model("vit_b_16", classes=10, image_size=100)


def test_the_lists_of_the_inventory_are_true() -> None:
    """The list of `make train MODEL=list`, which knows no torch, and whose defaults follow from
    how they are normalised, against the models."""
    variables = yaml.safe_load(Path("/group_vars/all/models.yml").read_text())
    listed, adamw_models = variables["training_parameters"], variables["training_adamw_models"]
    assert list(listed) == list(all_models())
    assert set(adamw_models) <= set(listed) - OWN_MODELS.keys()
    with WithoutMemory():
        for name in FAMILIES:
            model = build_model(name, 10, 32)
            assert listed[name] == parameter_count(model), name
            of_batch, of_layer = (
                any(isinstance(layer, kind) for layer in model.modules())
                for kind in (nn.BatchNorm2d, nn.LayerNorm)
            )
            by_batch_alone = name in OWN_MODELS or (of_batch and not of_layer)
            assert (name in adamw_models) is not by_batch_alone, name
