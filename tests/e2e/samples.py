"""The demo's sample data with the known answers."""
from dataclasses import dataclass

import numpy as np

from server import SAMPLES

LANGUAGES = ("en", "de", "es", "it", "pt", "cs", "pl", "ru")


def fashion_images():
    """[200, 1, 28, 28] float32, 0..1"""
    raw = (SAMPLES / "fashion-images.idx3").read_bytes()
    return np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / 255


def fashion_labels():
    """[200] the true classes"""
    return np.frombuffer((SAMPLES / "fashion-labels.idx1").read_bytes(), np.uint8, offset=8)


def picture(name):
    """[1, height, width, 3] float32, 0..255"""
    from PIL import Image  # not where only tests/clients' packages are
    return np.asarray(Image.open(SAMPLES / name).convert("RGB"), np.float32)[np.newaxis]


def as_pixels(upscaled):
    return np.clip(np.rint(upscaled), 0, 255).astype(np.uint8)


def psnr(a, b):
    """Peak signal-to-noise ratio of two pictures of bytes, dB; inf when equal."""
    error = np.mean((a.astype(float) - b.astype(float)) ** 2)
    return np.inf if error == 0 else 10 * np.log10(255 ** 2 / error)


@dataclass
class Sentence:
    language: str
    text: str

    @property
    def inputs(self):
        tokens = np.array([[257, *self.text.encode()]], np.int64)
        return {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}


def sentences():
    lines = (SAMPLES / "langid-sentences.tsv").read_text(encoding="utf-8").splitlines()
    return [Sentence(*line.split("\t")) for line in lines]
