"""Mining against a plain implementation of the EXTRA steps, its cost as reviews grow, and its recall.

python benchmarks/mining_speed.py REVIEWS.jsonl.gz [--count 5000] [--repeat 3] [--skip-peer] [--skip-scaling]

The peer does what EXTRA describes, sentence by sentence: split, tag every sentence (textblob's PatternTagger), MinHash
every kept one (datasketch), query a MinHashLSH. It reads its reviews from the same file; all imports are done before
the clock starts. CPU seconds are of all threads together.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
from datasketch import MinHash, MinHashLSH
from textblob.en.taggers import PatternTagger

from whyrank.mining import MiningRules, mine
from whyrank.mining.groups import near_rows, smallest_near
from whyrank.mining.sentences import Cutter, as_bytes, normalize
from whyrank.mining.words import FIRST_PERSON

SIMILARITY, LEAST = 0.9, 5
Result = TypeVar("Result")


def peer(path: Path) -> list[list[str]]:
    """Groups of near-duplicate sentences, each with at least five."""
    tagger, kept = PatternTagger(), []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            review = json.loads(line)
            for piece in re.split(r"[.:,?!\n]", review.get("title", "") + "\n" + review["text"]):
                sentence = piece.strip()
                words = sentence.lower().split()
                tags = [tag for _, tag in tagger.tag(sentence.lower())]
                personal = any(word in FIRST_PERSON for word in words)
                noun, adjective = any(t.startswith("NN") for t in tags), any(t.startswith("JJ") for t in tags)
                if len(words) >= 2 and not personal and noun and adjective:
                    kept.append(sentence)
    lsh, hashes = MinHashLSH(threshold=SIMILARITY), []
    for number, sentence in enumerate(kept):
        words = sentence.lower().split()
        minhash = MinHash()
        for shingle in {" ".join(words[k : k + 2]) for k in range(len(words) - 1)}:
            minhash.update(shingle.encode())
        lsh.insert(number, minhash)
        hashes.append(minhash)
    groups, done = [], set()
    for number, minhash in enumerate(hashes):
        if number not in done:
            group = lsh.query(minhash)
            for member in group:
                lsh.remove(member)
            done.update(group)
            groups.append([kept[member] for member in group])
    return [group for group in groups if len(group) >= LEAST]


def best(run: Callable[[], Result], repeat: int) -> tuple[float, float, Result]:
    """The least seconds and CPU seconds of several runs, and what the last one gave."""
    walls, cpus = [], []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        result = run()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus), result


def cut_file(source: Path, count: int | None, target: Path) -> int:
    """The first reviews of a file as a file of their own; how many there are."""
    with gzip.open(source, "rb") as lines, gzip.open(target, "wb", 1) as out:
        chosen = list(islice(lines, count))
        out.writelines(chosen)
    return len(chosen)


def against_peer(source: Path, count: int, repeat: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder) / "sample.jsonl.gz"
        cut_file(source, count, sample)
        mine(sample)  # compiles, opens lexicons
        theirs, their_cpu, groups = best(lambda: peer(sample), repeat)
        print(f"{count:,} reviews: peer {theirs:.2f} s ({their_cpu:.2f} s CPU), {len(groups)} groups")
        for name, rules in (("EXTRA's rules", MiningRules.extra()), ("default rules", MiningRules())):
            ours, our_cpu, mined = best(lambda rules=rules: mine(sample, rules=rules), repeat)
            print(
                f"  {name}: {ours:.3f} s, {theirs / ours:.0f} times as fast"
                f" ({our_cpu:.3f} s CPU, {their_cpu / our_cpu:.0f} times); {mined}"
            )
            if rules == MiningRules.extra():
                found = {normalize(text) for text in mined.wordings["text"]}
                shared = sum(any(normalize(sentence) in found for sentence in group) for group in groups)
                print(f"    {shared} of the peer's {len(groups)} groups are among them")


def scaling(source: Path, repeat: int) -> None:
    total = cut_file(source, None, Path("/dev/null"))
    mine(pl.DataFrame({"user": ["a"], "item": ["b"], "text": ["a great place"]}))
    for share in (0.25, 0.5, 1.0):
        with tempfile.TemporaryDirectory() as folder:
            sample = Path(folder) / "sample.jsonl.gz"
            count = cut_file(source, int(total * share), sample)
            seconds, _, mined = best(lambda path=sample: mine(path), repeat)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{share:4.0%}  {seconds:6.2f} s  {seconds / count * 1e6:5.0f} us a review  peak {memory:,.0f} MB  {mined}"
        )


def recall(source: Path, count: int) -> None:
    """Pairs of long sentences found, against all pairs by brute force; and the time of MinHash LSH on the same."""
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        reviews = pl.DataFrame(
            [{key: json.loads(line)[key] for key in ("title", "text")} for line in islice(lines, count)]
        )
    cutter = Cutter.of(MiningRules())
    cut = cutter.cut(reviews)
    _, first = np.unique(cut.keys, return_index=True)
    first = first[cut.sizes[first] >= smallest_near(SIMILARITY)]
    first = first[np.argsort(cut.sizes[first], kind="stable")]
    texts = pl.Series(
        [bytes(cut.text[s : s + n]).decode() for s, n in zip(cut.starts[first], cut.lengths[first], strict=True)]
    )
    indptr, hashes = cutter.shingles(*as_bytes(texts))
    print(f"{len(texts):,} long sentences")
    for similarity in (SIMILARITY, 0.6):
        near_rows(indptr, hashes, similarity)  # compiles
        seconds, _, (left, right) = best(lambda t=similarity: near_rows(indptr, hashes, t), 3)
        found, expected = set(zip(left.tolist(), right.tolist(), strict=True)), brute_force(indptr, hashes, similarity)
        share = len(found & expected) / len(expected)
        print(f"  similarity {similarity}: {seconds * 1e3:.0f} ms, {share:.1%} of {len(expected)} pairs of brute force")
    seconds, _, _ = best(lambda: with_minhash(indptr, hashes), 1)
    print(f"  MinHash LSH (rensa, 128 permutations, 16 bands) on the same: {seconds * 1e3:.0f} ms")


def brute_force(indptr: np.ndarray, hashes: np.ndarray, similarity: float) -> set[tuple[int, int]]:
    """All pairs of rows with at least this Jaccard similarity, from the product of the matrix with itself."""
    from scipy.sparse import csr_array

    _, columns = np.unique(hashes, return_inverse=True)
    matrix, sizes = csr_array((np.ones(len(columns), np.int32), columns, indptr)), np.diff(indptr)
    found: set[tuple[int, int]] = set()
    for start in range(0, len(sizes), 2000):
        common = (matrix[start : start + 2000] @ matrix.T).tocoo()
        near = common.data >= similarity * (sizes[common.row + start] + sizes[common.col] - common.data) - 1e-9
        pairs = zip((common.row[near] + start).tolist(), common.col[near].tolist(), strict=True)
        found |= {(a, b) for a, b in pairs if a < b}
    return found


def with_minhash(indptr: np.ndarray, hashes: np.ndarray) -> set[tuple[int, int]]:
    """Candidate pairs of MinHash LSH."""
    from rensa import RMinHash, RMinHashLSH

    lsh, pairs = RMinHashLSH(threshold=SIMILARITY, num_perm=128, num_bands=16), set()
    for number in range(len(indptr) - 1):
        minhash = RMinHash(num_perm=128, seed=1)
        minhash.update([str(h) for h in hashes[indptr[number] : indptr[number + 1]]])
        pairs |= {(other, number) for other in lsh.query(minhash)}
        lsh.insert(number, minhash)
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reviews", type=Path, help="JSON lines with user, item, text, compressed with gzip")
    parser.add_argument("--count", type=int, default=5000, help="reviews for the peer and for the recall")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--skip-peer", action="store_true")
    parser.add_argument("--skip-scaling", action="store_true")
    arguments = parser.parse_args()
    if not arguments.skip_peer:
        against_peer(arguments.reviews, arguments.count, arguments.repeat)
    if not arguments.skip_scaling:
        scaling(arguments.reviews, arguments.repeat)
    recall(arguments.reviews, 4 * arguments.count)


if __name__ == "__main__":
    main()
