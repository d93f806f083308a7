"""Plain-NumPy transcriptions of what kernels do, and small planted data to train on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.models.base import Model
from whyrank.training import PairwisePass, Pass, Storage, Table, TriplePass

MASK = (1 << 64) - 1


def splitmix(key: int, position: int) -> int:
    """SplitMix64's output number `position` from the state `key`, in Python's own integers."""
    z = (key + (position + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


class Parameters:
    """Algorithms 1 and 2 in float64, on copies of a storage's tables."""

    def __init__(self, storage: Storage) -> None:
        self.f = {name: storage.factors(name).astype(np.float64) for name in storage.tables}
        self.b = {name: storage.whole(name)[:, storage.width].astype(np.float64) for name in storage.tables}

    def bper_step(self, u: int, i: int, e: int, not_u: int, not_i: int, rate: float, reg: float) -> None:
        """Algorithm 1, lines 5 to 16."""
        P, Q, OU, OI = self.f["user"], self.f["item"], self.f["by_user"], self.f["by_item"]
        bU, bI = self.b["by_user"], self.b["by_item"]
        r_u = P[u] @ (OU[e] - OU[not_u]) + bU[e] - bU[not_u]
        r_i = Q[i] @ (OI[e] - OI[not_i]) + bI[e] - bI[not_i]
        x, y = -sigmoid(-r_u), -sigmoid(-r_i)
        P[u] = P[u] - rate * (x * (OU[e] - OU[not_u]) + reg * P[u])
        Q[i] = Q[i] - rate * (y * (OI[e] - OI[not_i]) + reg * Q[i])
        OU[e] = OU[e] - rate * (x * P[u] + reg * OU[e])
        OU[not_u] = OU[not_u] - rate * (-x * P[u] + reg * OU[not_u])
        OI[e] = OI[e] - rate * (y * Q[i] + reg * OI[e])
        OI[not_i] = OI[not_i] - rate * (-y * Q[i] + reg * OI[not_i])
        for b, g, n in ((bU, x, not_u), (bI, y, not_i)):
            b[e] = b[e] - rate * (g + reg * b[e])
            b[n] = b[n] - rate * (-g + reg * b[n])

    def bper_j_step(
        self, u: int, i: int, e: int, not_u: int, not_i: int, other: int, rate: float, reg: float, alpha: float
    ) -> None:
        """Algorithm 2, lines 5 to 20."""
        P, Q, OU, OI = self.f["user"], self.f["item"], self.f["by_user"], self.f["by_item"]
        bU, bI, b = self.b["by_user"], self.b["by_item"], self.b["item"]
        r_u = P[u] @ (OU[e] - OU[not_u]) + bU[e] - bU[not_u]
        r_i = Q[i] @ (OI[e] - OI[not_i]) + bI[e] - bI[not_i]
        r_ui = P[u] @ (Q[i] - Q[other]) + b[i] - b[other]
        x, y, z = -alpha * sigmoid(-r_u), -alpha * sigmoid(-r_i), -sigmoid(-r_ui)
        P[u] = P[u] - rate * (x * (OU[e] - OU[not_u]) + z * (Q[i] - Q[other]) + reg * P[u])
        Q[i] = Q[i] - rate * (y * (OI[e] - OI[not_i]) + z * P[u] + reg * Q[i])
        Q[other] = Q[other] - rate * (-z * P[u] + reg * Q[other])
        OU[e] = OU[e] - rate * (x * P[u] + reg * OU[e])
        OU[not_u] = OU[not_u] - rate * (-x * P[u] + reg * OU[not_u])
        OI[e] = OI[e] - rate * (y * Q[i] + reg * OI[e])
        OI[not_i] = OI[not_i] - rate * (-y * Q[i] + reg * OI[not_i])
        for bias, g, n, m in ((b, z, i, other), (bU, x, e, not_u), (bI, y, e, not_i)):
            bias[n] = bias[n] - rate * (g + reg * bias[n])
            bias[m] = bias[m] - rate * (-g + reg * bias[m])

    def cd_step(self, u: int, i: int, e: int, n: int, rate: float, reg: float) -> None:
        """Stochastic gradient of CD's objective, in the order of Algorithm 1: user, item, explanations."""
        P, Q, E = self.f["user"], self.f["item"], self.f["explanation"]
        x = -sigmoid(-float((P[u] * Q[i]) @ (E[e] - E[n])))
        P[u] = P[u] - rate * (x * Q[i] * (E[e] - E[n]) + reg * P[u])
        Q[i] = Q[i] - rate * (x * P[u] * (E[e] - E[n]) + reg * Q[i])
        E[e] = E[e] - rate * (x * P[u] * Q[i] + reg * E[e])
        E[n] = E[n] - rate * (-x * P[u] * Q[i] + reg * E[n])

    def pitf_step(self, u: int, i: int, e: int, n: int, rate: float, reg: float) -> None:
        """Stochastic gradient of PITF's objective, in the order of Algorithm 1."""
        P, Q, OU, OI = self.f["user"], self.f["item"], self.f["by_user"], self.f["by_item"]
        x = -sigmoid(-float(P[u] @ (OU[e] - OU[n]) + Q[i] @ (OI[e] - OI[n])))
        P[u] = P[u] - rate * (x * (OU[e] - OU[n]) + reg * P[u])
        Q[i] = Q[i] - rate * (x * (OI[e] - OI[n]) + reg * Q[i])
        for E, side in ((OU, P[u]), (OI, Q[i])):
            E[e] = E[e] - rate * (x * side + reg * E[e])
            E[n] = E[n] - rate * (-x * side + reg * E[n])

    def cd_j_step(self, u: int, i: int, e: int, n: int, other: int, rate: float, reg: float, alpha: float) -> None:
        """CD's and the items' objective together, in the order of Algorithm 2: user, items, explanations."""
        P, Q, E = self.f["user"], self.f["item"], self.f["explanation"]
        x = -alpha * sigmoid(-float((P[u] * Q[i]) @ (E[e] - E[n])))
        z = -sigmoid(-float(P[u] @ (Q[i] - Q[other])))
        P[u] = P[u] - rate * (x * Q[i] * (E[e] - E[n]) + z * (Q[i] - Q[other]) + reg * P[u])
        Q[i] = Q[i] - rate * (x * P[u] * (E[e] - E[n]) + z * P[u] + reg * Q[i])
        Q[other] = Q[other] - rate * (-z * P[u] + reg * Q[other])
        E[e] = E[e] - rate * (x * P[u] * Q[i] + reg * E[e])
        E[n] = E[n] - rate * (-x * P[u] * Q[i] + reg * E[n])

    def pitf_j_step(self, u: int, i: int, e: int, n: int, other: int, rate: float, reg: float, alpha: float) -> None:
        """PITF's and the items' objective together, in the order of Algorithm 2."""
        P, Q, OU, OI = self.f["user"], self.f["item"], self.f["by_user"], self.f["by_item"]
        x = -alpha * sigmoid(-float(P[u] @ (OU[e] - OU[n]) + Q[i] @ (OI[e] - OI[n])))
        z = -sigmoid(-float(P[u] @ (Q[i] - Q[other])))
        P[u] = P[u] - rate * (x * (OU[e] - OU[n]) + z * (Q[i] - Q[other]) + reg * P[u])
        Q[i] = Q[i] - rate * (x * (OI[e] - OI[n]) + z * P[u] + reg * Q[i])
        Q[other] = Q[other] - rate * (-z * P[u] + reg * Q[other])
        for E, side in ((OU, P[u]), (OI, Q[i])):
            E[e] = E[e] - rate * (x * side + reg * E[e])
            E[n] = E[n] - rate * (-x * side + reg * E[n])

    def step(self, shape: str, u: int, i: int, e: int, *away: int, rate: float, reg: float, alpha: float) -> None:
        """A draw of any of them; `away` has the negative of every pass, and joint forms alone have an alpha."""
        joint = {"alpha": alpha} if shape.endswith("-j") else {}
        getattr(self, f"{shape.replace('-', '_')}_step")(u, i, e, *away, rate=rate, reg=reg, **joint)


def best_items(model: Model, user: int, n: int) -> list[int]:
    """The items of a joint model by p_u . q_i + b_i in float64, without those the user knows; ties by popularity."""
    catalog = model.catalog_
    users = np.array([user], np.int32)
    scores = model.item_keys().astype(np.float64) @ model.item_queries(users)[0].astype(np.float64)
    popularity = np.zeros(len(catalog.items), int)
    for row in range(len(catalog.users)):
        popularity[catalog.user_items.row(row)] += 1
    order = sorted(range(len(scores)), key=lambda item: (-scores[item], -popularity[item], item))
    known = set(catalog.user_items.row(user).tolist())
    return [item for item in order if item not in known][:n]


def neighbour_scores(data: Triplets, user: int, item: int, by: str, size: int | None = None) -> NDArray[np.float64]:
    """The paper's RUCF (by="user") and RICF (by="item") for one pair, from sets alone.

    RICF: over the items that the user knows, within the `size` items most like this one, the sum of their Jaccard
    indices with it, for every explanation that is said of them. RUCF: the same with users and items in each other's
    place.
    """
    records = list(zip(data.record_user.tolist(), data.record_item.tolist(), strict=True))
    pairs = records if by == "user" else [(i, u) for u, i in records]
    own, other = (user, item) if by == "user" else (item, user)
    said: dict[int, set[int]] = {}
    for number, (row, _) in enumerate(pairs):
        said.setdefault(row, set()).update(data.record_explanations.row(number).tolist())
    alike = {
        row: len(said[own] & there) / len(said[own] | there)
        for row, there in said.items()
        if row != own and own in said
    }
    ranked = sorted((value for value in alike.values() if value > 0), reverse=True)
    least = ranked[size - 1] if size is not None and len(ranked) >= size else 0.0
    scores = np.zeros(len(data.explanations))
    for row in {row for row, column in pairs if column == other and row != own}:
        if alike.get(row, 0.0) > 0 and alike[row] >= least:
            scores[sorted(said[row])] += alike[row]
    return scores


@dataclass
class Planted:
    """Records whose explanations follow a low-rank structure, in training and test."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    explanations: NDArray[np.int32]  # (records, explanations of a record), sorted
    test: NDArray[np.bool_]
    sizes: tuple[int, int, int]

    def model(self, shape: str, factors: int = 8, alpha: float = 0.5) -> tuple[dict[str, Table], list[Pass]]:
        """Tables and passes of bper, cd or pitf, or with -j of its joint form, for the training records."""
        users, items, pool = self.sizes
        kept = ~self.test
        record_user, record_item, held = self.user[kept], self.item[kept], self.explanations[kept]
        user, item = (np.repeat(numbers, held.shape[1]) for numbers in (record_user, record_item))
        explanation, joint = held.ravel(), shape.endswith("-j")
        weight = alpha if joint else 1.0
        tables = {"user": Table(users, factors), "item": Table(items, factors, bias=shape == "bper-j")}
        passes: list[Pass] = []
        if shape.startswith("bper"):
            for side, numbers, rows in (("user", user, users), ("item", item, items)):
                tables[f"by_{side}"] = Table(pool, factors, bias=True)
                known = CSR.from_pairs(numbers, explanation, rows, pool)
                passes.append(PairwisePass(side, f"by_{side}", numbers, explanation, known, weight))
        else:
            form = "cd" if shape.startswith("cd") else "pitf"
            names = ("explanation",) if form == "cd" else ("by_user", "by_item")
            tables |= {name: Table(pool, factors) for name in names}
            records = CSR(self.starts(), explanation, np.ones(len(explanation), np.int32))
            passes.append(TriplePass(form, "user", "item", names, record_user, record_item, records, weight))
        if joint:
            known = CSR.from_pairs(user, item, users, items)
            passes.append(PairwisePass("user", "item", user, item, known))
        return tables, passes

    def starts(self) -> NDArray[np.int64]:
        """Where the triplets of each training record start, and the end."""
        return np.arange((~self.test).sum() + 1, dtype=np.int64) * self.explanations.shape[1]

    def records(self) -> NDArray[np.int64]:
        """The record of every training triplet."""
        return np.repeat(np.arange((~self.test).sum(), dtype=np.int64), self.explanations.shape[1])

    def ndcg(self, storage: Storage, shape: str, k: int = 10) -> float:
        """Mean NDCG at k of the explanations of the test pairs."""
        f, u, i = storage.factors, self.user[self.test], self.item[self.test]
        if shape.startswith("cd"):
            scores = (f("user")[u] * f("item")[i]) @ f("explanation").T
        else:
            scores = f("user")[u] @ f("by_user").T + f("item")[i] @ f("by_item").T
            if shape.startswith("bper"):
                scores = scores + storage.bias("by_user") + storage.bias("by_item")
        top = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        relevant = self.explanations[self.test]
        gains = 1 / np.log2(np.arange(k) + 2)
        hits = (top[:, :, None] == relevant[:, None, :]).any(2)
        return float(((hits * gains).sum(1) / gains[: relevant.shape[1]].sum()).mean())


def planted(
    seed: int, users: int = 300, items: int = 100, pool: int = 60, records: int = 3000, rank: int = 4, held: int = 2
) -> Planted:
    """Each record holds the `held` best explanations by user taste, item character, popularity and noise."""
    rng = np.random.default_rng(seed)
    p, q, by_user, by_item = (rng.normal(size=(n, rank)) for n in (users, items, pool, pool))
    pairs = rng.choice(users * items, records, replace=False)
    user, item = (pairs // items).astype(np.int32), (pairs % items).astype(np.int32)
    scores = p[user] @ by_user.T + q[item] @ by_item.T + rng.normal(size=pool) + rng.gumbel(size=(records, pool))
    best = np.sort(np.argpartition(-scores, held, axis=1)[:, :held], axis=1).astype(np.int32)
    return Planted(user, item, best, rng.random(records) < 0.3, (users, items, pool))
