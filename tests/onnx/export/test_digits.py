"""The digits network, trained on real digits, classifies them in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import pyrite
from pyrite import Tensor, nn
from pyrite.cli.digits import DigitNet
from pyrite.data import DataLoader, digits
from pyrite.onnx import export


def trained() -> DigitNet:
    """Return the network after a pass over the digits."""

    def loss(model: DigitNet, images: Tensor, labels: Tensor) -> Tensor:
        return nn.CrossEntropyLoss()(model(images), labels)

    model, optimizer = DigitNet().to("cpu"), pyrite.optim.AdamW(3e-3)
    for images, labels in DataLoader(digits("train"), 32, shuffle=True, seed=0):
        _, grads = pyrite.value_and_grad(loss)(model, images.to("cpu"), labels.to("cpu"))
        model = optimizer.step(model, grads)
    return model.to("numpy")


def test_an_exported_network_reads_digits(run: Any, tmp_path: Path) -> None:
    model, path = trained(), tmp_path / "digits.onnx"
    images, labels = next(iter(DataLoader(digits("test"), 500)))

    export(model, images[:1], path, dynamic={"x": {0: "batch"}})

    scores = run(path, {"x": images.numpy()})["output"]
    np.testing.assert_allclose(scores, model(images).numpy(), rtol=1e-4, atol=1e-4)
    assert (scores.argmax(1) == labels.numpy()).mean() > 0.9
