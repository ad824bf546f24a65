"""Convolutional networks for small images: a plain one and a deep one with shortcuts."""

import torch
from torch import Tensor, nn


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    """A 3 x 3 convolution that keeps the size, batch normalisation, ReLU."""
    return nn.Sequential(
        # The normalisation right after it has a bias of its own.
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """Two convolutions around a shortcut (He et al., 2016)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(convolution(width, width), convolution(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """x: batch x width x height x width of the image, the same shape out."""
        return x + self.body(x)


class SimpleCNN(nn.Module):
    """`cnn_a`: three convolutions with a pooling each, one hidden layer."""

    def __init__(self, classes: int, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolution(3, width),
            nn.MaxPool2d(2),
            convolution(width, 2 * width),
            nn.MaxPool2d(2),
            convolution(2 * width, 2 * width),
            # Whatever the size of the images, 4 x 4 places are left.
            nn.AdaptiveMaxPool2d(4),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(2 * width * 16, 4 * width),
            nn.ReLU(inplace=True),
            nn.Dropout(0.2),
            nn.Linear(4 * width, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, batch x classes, of images, batch x 3 x height x width, float."""
        return self.classifier(self.features(images))


class DeepCNN(nn.Module):
    """`cnn_b`: eight convolutions, two of the four stages with a shortcut.

    The layout is that of David Page's ResNet-9 ("How to train your ResNet", 2018) at half its
    width. Each later stage pools before it convolves, not after: a quarter of the work for a
    point of accuracy, which is what makes it trainable on a CPU.
    """

    def __init__(self, classes: int, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolution(3, width),
            nn.MaxPool2d(2),
            convolution(width, 2 * width),
            Residual(2 * width),
            nn.MaxPool2d(2),
            convolution(2 * width, 4 * width),
            nn.MaxPool2d(2),
            convolution(4 * width, 8 * width),
            Residual(8 * width),
            nn.AdaptiveMaxPool2d(1),
        )
        self.classifier = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, batch x classes, of images, batch x 3 x height x width, float."""
        return self.classifier(torch.flatten(self.features(images), 1))
