"""The estimator API that every model has, and the little that a model has to say for itself."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank import artifacts
from whyrank.data.catalog import Catalog
from whyrank.data.ratings import ANY
from whyrank.data.split import ORDERED, Split
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import feed_ids
from whyrank.errors import ArtifactError, DataError, NotFitted, ParameterError
from whyrank.explain.options import ItemGoals, Options
from whyrank.index.form import Block, Bonus, Floats, Numbers, Rows, bonus_of, constant_and_split
from whyrank.index.search import Search
from whyrank.models import parameters
from whyrank.version import __version__

if TYPE_CHECKING:
    from whyrank.explain.reasons import Reason
    from whyrank.explain.recommend import Recommendation, RecommendedPair
    from whyrank.explain.result import Pairs
    from whyrank.training import Run
    from whyrank.wording.templates import Templates

TYPICAL = 64  # pairs whose queries show what a search will be asked
Shape = tuple[int | None, ...]  # None where any size will do
Cached = TypeVar("Cached")
Other = TypeVar("Other", bound="Model")


class FoldedIn(NamedTuple):
    """What `fold_in` took in and what it skipped."""

    triplets: int  # taken in
    users: int  # new ones
    items: int  # new ones
    unknown_explanations: int  # triplets that were skipped: the model does not know what they say
    known_pairs: int  # records that were skipped: the model has counted them


@dataclass(kw_only=True, eq=False)
class Model:
    """Base of all models: constructors only store, `fit` checks and learns, fitted attributes end in `_`.

    A model says how it learns (`_fit`) and how it scores (`keys` and `queries`, or `bonus`, or both); everything that
    users call (explain, recommend, save, ...) follows from that.
    """

    id: ClassVar[str]
    summary: ClassVar[str]
    ranks_items: ClassVar[bool] = False
    item_constant: ClassVar[int] = 0  # last columns of item queries that are the same for all users: a bias of items
    fitted: ClassVar[tuple[str, ...]] = ()  # names of the learned arrays, without the trailing underscore
    scores_n: ClassVar[bool] = False  # whether `bonus` is for its n best alone, of which a larger n has more
    of_users: ClassVar[tuple[str, ...]] = ("user_factors",)  # learned arrays with a row for each user
    types: ClassVar[Mapping[str, type]] = {}  # of learned arrays that are not of float32
    uses_validation: ClassVar[bool] = False  # whether a fit looks at the validation part of a split
    spaces: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # where `tune` looks, for "tpe" and "grid"; ours: the lab's

    # -- what a model defines ------------------------------------------------------------------------------------------

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The model's name as people write it: Profile-J, BPER+."""
        name = re.sub("^Learned", "Learned ", type(self).__name__).replace("Plus", "+")
        return f"{name[:-1]}-J" if self.id.endswith("-j") and name.endswith("J") else name

    def shapes(self) -> Mapping[str, Shape]:
        """The shapes that learned arrays must have: kernels look into them by number, without looking at their size."""
        return {}

    def keys(self) -> Floats:
        """One row per explanation."""
        return np.zeros((len(self.catalog_.explanations), 0), np.float32)

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        """One row per pair; unknown users or items (-1) have zeros in their part. `mu` replaces the model's own."""
        return np.zeros((len(users), 0), np.float32)

    def bonus(self, users: Numbers, items: Numbers, n: int, mu: float | None = None) -> Bonus | None:
        """Sparse, nonnegative additions to the dot products; `n` is how many reasons will be asked for."""
        return None

    def bonus_parts(self, users: Numbers, items: Numbers, mu: float | None = None) -> Mapping[str, Bonus]:
        """What of the bonus is the user's and what is the item's, where that can be told."""
        return {}

    def bonus_at(
        self, users: Numbers, items: Numbers, row: Rows, explanations: Numbers, mu: float | None = None
    ) -> Mapping[str, Floats]:
        """`bonus_parts` of some explanations alone; `row` says to which pair each belongs."""
        parts = self.bonus_parts(users, items) if mu is None else self.bonus_parts(users, items, mu)
        return {name: bonus_of(part, row, explanations) for name, part in parts.items()}

    def blocks(self) -> tuple[Block, ...]:
        """Whose part of the score the columns of `keys` carry, from left to right."""
        return ()

    def chosen(self) -> str:
        """What a fit has chosen by itself, in words; empty where there is nothing to choose."""
        return ""

    @property
    def learned_among(self) -> str:
        """What explanations compete with in training, as `evaluate` names candidates."""
        return "pool"

    def suited_to(self, candidates: str) -> Self:
        """A copy to be fitted for lists of such candidates: models that can learn from them will."""
        return copy.copy(self)

    def item_keys(self) -> Floats:
        """One row per item, for models that rank items."""
        raise ParameterError(f"{self.id} does not rank items; use a joint model such as bper-j (BPERJ)")

    def item_queries(self, users: Numbers) -> Floats:
        """One row per user, for models that rank items."""
        raise ParameterError(f"{self.id} does not rank items; use a joint model such as bper-j (BPERJ)")

    def item_query_from(self, items: Numbers) -> Floats:
        """One row for somebody of whom nothing is known but these items; as for somebody unknown, unless overridden."""
        return self.item_queries(np.full(1, -1, np.int32))

    # -- learning ------------------------------------------------------------------------------------------------------

    def fit(self, train: Triplets | Split, validation: Triplets | None = None, run: Run | None = None) -> Self:
        """Learn from triplets (of a split: its training part), forgetting what was learned before.

        `run` says how: threads, progress, checkpoints. It never changes the result. Models that can stop early or tune
        themselves use `validation`, and hold out some records of `train` where it is not given. Its ids are looked up
        in `train`; records of users, items or explanations that are not there are left out. Of a split, models that
        look at no validation part (`uses_validation`) learn from all of its training part, validation included. A split
        that is not by time gives no times to `_fit`.
        """
        from whyrank.training import Run

        parameters.check(self)
        if not isinstance(train, Split):
            require_triplets("fit", train, "Triplets or a Split")
        if validation is not None:
            require_triplets("fit", validation, "a validation part of Triplets")
        ordered = not isinstance(train, Split) or train.info["method"] in ORDERED
        if isinstance(train, Split):
            train, validation = self.parts_of(train) if validation is None else (train.train, validation)
        if validation is not None and validation.records:
            validation = validation.renumbered(train)
            if not validation.records:
                raise DataError(
                    "no validation record has ids of the training data", expected="records of the same data"
                )
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._forget()
        whole = self.remembers(train, validation)
        self.catalog_, self.data_digest_ = Catalog.of(whole), whole.digest()
        if not ordered:  # what was said after a test record would tell of it
            train = replace(train, time=None)
            validation = None if validation is None else replace(validation, time=None)
        try:
            self._fit(train, run or Run(), validation)
        except BaseException:
            del self.catalog_
            raise
        return self

    @classmethod
    def parts_of(cls, split: Split) -> tuple[Triplets, Triplets | None]:
        """What a fit to a split learns from, and what it chooses by."""
        return (split.train, split.validation) if cls.uses_validation else (split.training, None)

    def remembers(self, train: Triplets, validation: Triplets | None) -> Triplets:
        """What a fitted model counts and names: what it has learned from."""
        return train

    def fold_in(self, new: object) -> Self:
        """Take in users and items that came after the fit, from what they said and what was said about them.

        Nothing that was learned changes, and no other data is needed; what is new gets factors from the explanations.
        Evidence counts the new triplets as well. The model itself grows, and is returned; `folded_in_` says how much.

        Args:
            new: Triplets, or a table of columns user, item, explanation as `Triplets.from_frame` takes it. Explanations
                that the model does not know are skipped, and so are pairs that it knows, so that nothing counts twice.

        Returns:
            The model.

        Raises:
            DataError: the table lacks a column, or is none.
            ParameterError: the model cannot fold in (CD, whose factors come in threes).

        >>> import whyrank as wr
        >>> model = wr.POP().fit(wr.simulate("small", users=50, records=200))
        >>> new = {"user": ["ann", "ann"], "item": ["i00001", "i00002"], "explanation": ["e00001", "no such"]}
        >>> model.fold_in(new).folded_in_
        FoldedIn(triplets=1, users=1, items=0, unknown_explanations=1, known_pairs=0)
        """
        self._check_fitted()
        given = new if isinstance(new, Triplets) else Triplets.from_frame(new)
        known = self.catalog_
        unknown = known.explanations.numbers(given.explanations.ids, missing="negative")[given.explanation] < 0
        rest = given.without(unknown) if unknown.any() else given
        seen = known.knows(*known.numbers_of(rest))
        rest = rest.take(np.flatnonzero(~seen))
        before = len(known.users), len(known.items)
        if rest.records:
            # Nobody and nothing is taken in of which nothing is left.
            rest = Triplets.from_frame(rest.frame(record=True), record="record", rating_range=ANY)
            grown = known.grown(rest)
            self._grow(grown)
            self.catalog_ = grown
            self._took_in(rest.digest())
            self._forget()
        users, items = len(self.catalog_.users) - before[0], len(self.catalog_.items) - before[1]
        self.folded_in_ = FoldedIn(len(rest), users, items, int(unknown.sum()), int(seen.sum()))
        return self

    def _took_in(self, digest: str) -> None:
        """The data that the model says it comes from is what it was fitted to, and then more."""
        self.data_digest_ = hashlib.sha256(f"{self.data_digest_} {digest}".encode()).hexdigest()

    def _grow(self, catalog: Catalog) -> None:
        """Make room for the users and items that a catalog has beyond the model's; some models need none."""

    # -- ranking, by number --------------------------------------------------------------------------------------------

    def search(self) -> Search:
        """The exact search over this model's keys."""
        self._check_fitted()

        def made() -> Search:
            constant, split = constant_and_split(self.blocks())
            sizes = len(self.catalog_.users), len(self.catalog_.items)
            users, items = (np.linspace(0, size - 1, min(TYPICAL, *sizes)).astype(np.int32) for size in sizes)
            typical = self.queries(users, items)
            return Search(self.keys(), self.catalog_.ranks, constant=constant, split=split, typical=typical)

        return self.cached("search", made)

    def item_search(self) -> Search:
        """The exact search over this model's items."""
        self._check_fitted()

        def made() -> Search:
            return Search(self.item_keys(), self.catalog_.item_ranks, constant=self.item_constant)

        return self.cached("item search", made)

    def cached(self, key: object, make: Callable[[], Cached]) -> Cached:
        """What is made once of a fitted model, until it changes."""
        cache = self._cache  # what is made of a model that changes meanwhile must not outlive the change
        if key not in cache:
            with self._making:  # threads that ask at the same time wait for the first
                if key not in cache:
                    cache[key] = make()
        return cast(Cached, cache[key])

    def _forget(self) -> None:
        """To be called when keys, strengths or the catalog change."""
        self._cache: dict[object, object] = {}
        self._making = threading.RLock()

    # -- ranking, by external id ---------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """For notebooks: what the model is, how it was set, and what it was fitted to."""
        from whyrank.render import html_table

        rows = [["model", f"{type(self).__name__}: {self.summary}"]]
        rows += [[name, str(value)] for name, value in parameters.values(self).items()]
        if hasattr(self, "catalog_"):
            catalog = self.catalog_
            sizes = (len(catalog.users), len(catalog.items), len(catalog.explanations))
            rows.append(["fitted to", "{:,} users, {:,} items, {:,} explanations".format(*sizes)])
        return html_table(["parameter", "value"], rows)

    def explain(
        self, user: object, item: object, n: int = 10, *, templates: Templates | None = None, **options: Any
    ) -> list[Reason]:
        """The `n` best reasons for a pair, best first; options as in `whyrank.Options`.

        Somebody unknown is answered from the item and popularity (`reason.fallback`); an unknown item raises UnknownId.
        """
        from whyrank.explain.reasons import Reasons, reasons
        from whyrank.explain.result import explain

        self._check_fitted()
        chosen = Options.of(options)
        found = explain(self, [(user, item)], chosen, n, on_unknown="raise", similar=True, templates=templates)
        return Reasons(reasons(found)[0])

    def explain_many(
        self, pairs: Pairs, n: int = 10, *, templates: Templates | None = None, **options: Any
    ) -> pl.DataFrame:
        """Reasons for many pairs: a table with columns user and item in (or a list of pairs), a table out.

        Pairs without a reason have a row with `status` no_reason or unknown_item; `fallback` marks unknown users.
        """
        from whyrank.explain.reasons import table
        from whyrank.explain.result import explain

        self._check_fitted()
        return table(explain(self, pairs, Options.of(options), n, similar=True, templates=templates))

    def recommend(
        self,
        user: object,
        n: int = 10,
        reasons: int = 3,
        *,
        goals: ItemGoals | None = None,
        templates: Templates | None = None,
        **options: Any,
    ) -> list[Recommendation]:
        """The `n` best items that the user has not interacted with, each with its best reasons.

        `goals` are objectives beside the score: serendipity, and minimum shares of the places for groups of items.
        """
        from whyrank.explain.recommend import recommend

        self._check_fitted()
        return recommend(self, user, n, reasons, Options.of(options), templates, goals)

    def recommend_pairs(
        self, user: object, n: int = 10, weight: float = 1.0, *, templates: Templates | None = None, **options: Any
    ) -> list[RecommendedPair]:
        """The `n` best (item, explanation) pairs over all of them: item score + weight x explanation score."""
        from whyrank.explain.recommend import recommend_pairs

        self._check_fitted()
        return recommend_pairs(self, user, n, weight, Options.of(options), templates)

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, report: Mapping[str, object] | None = None) -> Path:
        """Write a folder that `whyrank.load` reads.

        Args:
            path: The folder. One of an older model gives way to it in one step.
            report: What was measured, by name (`training`, `evaluation`): `metrics.json` in the folder.

        Returns:
            The folder.

        Raises:
            NotFitted: There is nothing to save yet.
            ArtifactError: The folder cannot be written, or holds other things.
        """
        self._check_fitted()
        arrays: dict[str, NDArray[np.generic]] = {f"catalog.{k}": v for k, v in self.catalog_.arrays().items()}
        arrays |= {f"model.{name}": getattr(self, f"{name}_") for name in self.fitted}
        digests = {name: getattr(self.catalog_, name).digest() for name in ("users", "items", "explanations")}
        facts = self.facts(self.data_digest_, digests)
        texts = {artifacts.REPORT: artifacts.report_text(report)} if report else {}
        return artifacts.save(path, "model", facts, arrays, self.catalog_.tables(), texts)

    def digest(self) -> str:
        """A hash of everything that its answers come from."""
        self._check_fitted()
        arrays = {**self.catalog_.arrays(), **{name: getattr(self, f"{name}_") for name in self.fitted}}
        found = hashlib.blake2b(json.dumps([self.id, self._stored_parameters()], default=str).encode(), digest_size=32)
        for name in sorted(arrays):
            found.update(name.encode())
            found.update(np.ascontiguousarray(arrays[name]).data)
        for name, table in self.catalog_.tables().items():
            for column in table:
                found.update(f"{name}.{column.name}".encode())
                if column.dtype == pl.String:
                    feed_ids(found, column.fill_null("\0"))
                else:
                    found.update(column.to_numpy().tobytes())
        return found.hexdigest()

    def __getstate__(self) -> dict[str, object]:
        """For copies in other processes: without what is made again when it is needed."""
        return {name: value for name, value in vars(self).items() if name not in ("_cache", "_making")}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        vars(self).update(state)
        self._forget()

    def facts(self, data: str, vocabularies: Mapping[str, str]) -> dict[str, object]:
        """What a saved model says of itself: its parameters, and the digests of what it was fitted to."""
        return {
            "model": self.id,
            "parameters": self._stored_parameters(),
            "whyrank": __version__,
            "data": data,
            "vocabularies": dict(vocabularies),
        }

    @classmethod
    def restore(cls, stored: artifacts.Stored, path: Path) -> Self:
        """The model behind a folder that `save` wrote."""
        try:
            given: Any = stored.facts["parameters"]
            model = cls(**given)
            parameters.check(model)
            model._forget()
            catalog = {n.removeprefix("catalog."): a for n, a in stored.arrays.items() if n.startswith("catalog.")}
            model.catalog_ = Catalog.restore(catalog, stored.tables)
            model.data_digest_ = str(stored.facts["data"])
            for name in cls.fitted:
                setattr(model, f"{name}_", stored.arrays[f"model.{name}"])
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                model._check_restored()
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, ParameterError) as error:
            raise ArtifactError(f"{path}: does not hold what a {cls.__name__} needs ({error})") from error
        return model

    def _check_restored(self) -> None:
        """Raise unless arrays have their shapes, and keys and queries fit each other."""
        catalog = self.catalog_
        for name, shape in self.shapes().items():
            array = getattr(self, f"{name}_")
            fits = len(array.shape) == len(shape) and all(
                wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
            )
            if not fits or array.dtype != self.types.get(name, np.float32):
                raise ValueError(f"{name} has the wrong size or type")
        users, items = (np.array([len(each) - 1], np.int32) for each in (catalog.users, catalog.items))
        asked = [(self.keys(), self.queries(users, items), len(catalog.explanations))]
        if self.ranks_items:
            asked.append((self.item_keys(), self.item_queries(users), len(catalog.items)))
        for keys, queries, rows in asked:
            if keys.shape != (rows, *queries.shape[1:]) or queries.ndim != 2:
                raise ValueError("arrays of sizes that do not fit each other")
        self.bonus(users, items, 1)

    def _view(self, catalog: Catalog) -> Self:
        """Another model with these parameters: to be given what a fit has learned so far, and measured."""
        view = type(self)(**{field.name: getattr(self, field.name) for field in dataclasses.fields(self)})
        view.catalog_ = catalog
        view._forget()
        return view

    def _share_catalog(self, other: Other) -> Other:
        """Make another form of the same fitted model usable."""
        other.catalog_, other.data_digest_ = self.catalog_, self.data_digest_
        other._forget()
        return other

    def _stored_parameters(self) -> Mapping[str, object]:
        return parameters.values(self)

    def _check_fitted(self) -> None:
        if not hasattr(self, "catalog_"):
            raise NotFitted(f"this {type(self).__name__} is not fitted yet; call fit first")


def require_triplets(method: str, given: object, wanted: str = "Triplets") -> None:
    if not isinstance(given, Triplets):
        raise ParameterError(
            f"{method} takes {wanted}, not {type(given).__name__}; "
            "whyrank.read makes Triplets of a file, Triplets.from_frame of a table"
        )
