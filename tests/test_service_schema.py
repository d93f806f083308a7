"""The OpenAPI document and the service agree, whatever is sent."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from needs import module
from service_world import World, make_world

schemathesis = module("schemathesis", "rare")
positive_data_acceptance = module("schemathesis.specs.openapi.checks", "rare").positive_data_acceptance
pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("WHYRANK_SCHEMA_EXAMPLES", "6"))  # for each route; set it higher for a longer search


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def api(world: World) -> Iterator[object]:
    from starlette.testclient import TestClient

    from whyrank.service.app import create_app

    app = create_app(world.settings("pop", "toy"))
    with TestClient(app):  # keeps the models loaded while schemathesis asks
        yield schemathesis.openapi.from_asgi("/openapi.json", app)


def test_no_request_fails_and_every_answer_is_as_documented(api: object) -> None:
    operations = [found.ok() for found in api.get_all_operations()]
    assert len(operations) > 20
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    for operation, mode in itertools.product(operations, modes):

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(case=operation.as_strategy(generation_mode=mode))
        def agree(case: object) -> None:
            # What the schema allows may still be refused: a model without mu, an agreement above the participants.
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        with contextlib.suppress(Unsatisfiable):  # what takes no parameters cannot be asked wrongly
            agree()
