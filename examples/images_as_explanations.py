"""Pictures as reasons: rank images of dishes as explanations for restaurants, without a word of text.

    python examples/images_as_explanations.py [sheet.png]

Draws small pictures of dishes, plants who likes which colour and which restaurant serves which shape, fits BPER+ to
features of the pictures (colour histograms and coarse thumbnails), and ranks pictures for a few pairs; a tenth of the
pictures is new to the model. With matplotlib installed it also writes a sheet of the ranked pictures.
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data import Triplets
from whyrank.models.bper_plus import BPERPlus

COLOURS = {"red": (0.85, 0.2, 0.15), "green": (0.2, 0.65, 0.25), "yellow": (0.95, 0.8, 0.2), "brown": (0.45, 0.3, 0.15)}
SHAPES = ("bowl", "pizza", "skewer")
SIZE, PICTURES, USERS, ITEMS, RECORDS = 32, 240, 200, 60, 4000
Images = NDArray[np.float64]


def draw(colour: str, shape: str, rng: np.random.Generator) -> Images:
    """A dish on a plate, a little different every time."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1) * 2 - 1
    x, y = x - rng.normal(0, 0.08), y - rng.normal(0, 0.08)
    image = np.full((SIZE, SIZE, 3), 0.55) + rng.normal(0, 0.02, 3)
    image[x**2 + y**2 < 0.9] = 0.95
    food = {
        "bowl": x**2 + y**2 < 0.35,
        "pizza": (abs(x) < 0.6 * (y + 0.7)) & (y < 0.5) & (y > -0.7),
        "skewer": (abs(y - 0.5 * x) < 0.16) & (abs(x) < 0.8),
    }[shape]
    image[food] = np.array(COLOURS[colour]) + rng.normal(0, 0.05, 3)
    return np.clip(image + rng.normal(0, 0.03, image.shape), 0, 1)


def features(images: Images) -> Images:
    """Per picture: a histogram of 4 levels per colour channel, and a thumbnail of 8 x 8 greys."""
    levels = np.minimum((images * 4).astype(int), 3)
    histogram = (levels[..., None] == np.arange(4)).mean(axis=(1, 2)).reshape(len(images), -1)
    step = SIZE // 8
    grey = images.mean(3).reshape(len(images), 8, step, 8, step).mean(axis=(2, 4)).reshape(len(images), -1)
    return np.hstack([4 * histogram, grey])


def plant(rng: np.random.Generator) -> tuple[pl.DataFrame, Images, list[tuple[str, str]], list[str], list[str]]:
    """Pictures, and triplets in which users like one colour and restaurants serve one shape."""
    kinds = [(str(rng.choice(list(COLOURS))), str(rng.choice(SHAPES))) for _ in range(PICTURES)]
    images = np.stack([draw(*kind, rng) for kind in kinds])
    likes = [str(rng.choice(list(COLOURS))) for _ in range(USERS)]
    serves = [str(rng.choice(SHAPES)) for _ in range(ITEMS)]
    known = np.arange(PICTURES - PICTURES // 10)  # the others are shown to nobody yet
    rows = []
    for _ in range(RECORDS):
        user, item = int(rng.integers(USERS)), int(rng.integers(ITEMS))
        fit = np.array([(kinds[k][0] == likes[user]) + (kinds[k][1] == serves[item]) for k in known])
        weight = 8.0**fit
        rows.append((f"user{user:03d}", f"place{item:02d}", name(int(rng.choice(known, p=weight / weight.sum())))))
    frame = pl.DataFrame(rows, schema=["user", "item", "explanation"], orient="row")
    return frame, images, kinds, likes, serves


def name(picture: int) -> str:
    return f"picture{picture:03d}"


def sheet(path: str, images: Images, lists: list[tuple[str, list[int]]]) -> None:
    """One row of pictures per pair."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(lists), len(lists[0][1]), figsize=(9, 1.5 * len(lists)), squeeze=False)
    for row, (title, pictures) in zip(axes, lists, strict=True):
        for axis, picture in zip(row, pictures, strict=True):
            axis.imshow(images[picture])
            axis.axis("off")
        row[0].set_title(title, loc="left", fontsize=8)
    figure.savefig(path, dpi=100, bbox_inches="tight")
    pyplot.close(figure)


def main() -> None:
    frame, images, kinds, likes, serves = plant(np.random.default_rng(0))
    triplets, table = Triplets.from_frame(frame), features(images)
    ids = [name(picture) for picture in range(PICTURES)]
    model = BPERPlus(features=table, feature_ids=ids, factors=16, learning_rate=0.01, epochs=10, mu=0.5).fit(triplets)
    new = [picture for picture in range(PICTURES) if name(picture) not in set(triplets.explanations.ids)]
    model.add_explanations([name(picture) for picture in new], features=table[new])
    lists, right, fresh = [], np.zeros(2), 0
    for user, item in ((0, 0), (1, 1), (2, 2), (3, 3)):
        reasons = model.explain(f"user{user:03d}", f"place{item:02d}", n=8, grounded=False)
        pictures = [int(reason.explanation.removeprefix("picture")) for reason in reasons]
        right += [sum(kinds[p][0] == likes[user] for p in pictures), sum(kinds[p][1] == serves[item] for p in pictures)]
        fresh += sum(picture in new for picture in pictures)
        title = f"user{user:03d} likes {likes[user]}, place{item:02d} serves {serves[item]}"
        lists.append((title, pictures))
        print(f"{title}: {', '.join(' '.join(kinds[picture]) for picture in pictures)}")
    print(f"right colour {right[0] / 32:.0%}, right shape {right[1] / 32:.0%}, pictures nobody had used: {fresh} of 32")
    try:
        sheet(path := sys.argv[1] if len(sys.argv) > 1 else "images_as_explanations.png", images, lists)
        print(f"sheet: {path}")
    except ImportError:
        print("no sheet: it needs matplotlib (pip install 'whyrank[plots]')")


if __name__ == "__main__":
    main()
