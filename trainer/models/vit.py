"""Vision transformer for small images (Dosovitskiy et al., 2021), pre-norm, mean pooled."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class ViTSize:
    """The numbers that make a vision transformer.

    Attributes:
        image_size: edge of the image in pixels.
        patch_size: edge of a patch in pixels; divides the image.
        width: values of a token.
        heads: attention heads; divide the width.
        mlp_ratio: width of a block's hidden layer over the token's.
    """

    image_size: int
    patch_size: int
    width: int
    depth: int
    heads: int
    mlp_ratio: int = 4

    def __post_init__(self) -> None:
        if self.image_size % self.patch_size:
            raise ValueError(f"patches of {self.patch_size} do not tile {self.image_size} pixels")
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")

    @property
    def tokens(self) -> int:
        return (self.image_size // self.patch_size) ** 2


class Attention(nn.Module):
    """Multi-head self-attention, tokens x width in and out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the tokens of each image; x: batch x tokens x width."""
        batch, tokens, width = x.shape
        packed = self.query_key_value(x).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = _attend(query, key, value)
        return self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Scaled dot-product attention; all batch x heads x tokens x (width / heads)."""
    if not query.is_cpu:
        return functional.scaled_dot_product_attention(query, key, value)
    # On CPUs torch 2.6 multiplies bfloat16 matrices by oneDNN, but not inside attention: there
    # bfloat16 takes four times as long as float32, more than all other layers gain by it.
    with torch.autocast("cpu", enabled=False):
        return functional.scaled_dot_product_attention(query.float(), key.float(), value.float())


class Block(nn.Module):
    """Attention, then a two-layer perceptron, each after a norm and around a shortcut."""

    def __init__(self, size: ViTSize) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(size.width)
        self.attention = Attention(size.width, size.heads)
        self.mlp_norm = nn.LayerNorm(size.width)
        self.mlp = nn.Sequential(
            nn.Linear(size.width, size.mlp_ratio * size.width),
            nn.GELU(),
            nn.Linear(size.mlp_ratio * size.width, size.width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x: batch x tokens x width, the same shape out."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class ViT(nn.Module):
    """Patches, learned positions, blocks, the mean of the tokens, a linear layer."""

    def __init__(self, size: ViTSize, classes: int) -> None:
        super().__init__()
        self.patch_size = size.patch_size
        self.embed = nn.Linear(3 * size.patch_size**2, size.width)
        self.position_embedding = nn.Parameter(torch.empty(size.tokens, size.width))
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.depth)))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, classes)
        nn.init.trunc_normal_(self.position_embedding, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                # As in the original. The common truncated normal of deviation 0.02 is made for
                # a width of 768; at 192 it cost 0.1 of loss after 150 steps of 64 images.
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        # Small logits: training starts from the loss of a blind guess, not from a wrong opinion.
        nn.init.trunc_normal_(self.head.weight, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, batch x classes, of images, batch x 3 x height x width, float."""
        # A convolution whose stride is its kernel is a matrix product over patches; written as
        # one it avoids a slow convolution kernel on CPUs.
        patches = functional.pixel_unshuffle(images, self.patch_size).flatten(2).transpose(1, 2)
        tokens = self.embed(patches) + self.position_embedding
        return self.head(self.norm(self.blocks(tokens)).mean(dim=1))
