"""The scenes of intercept_scenes.py for commands of root, with a view of its own."""

import pytest

from intercept_scenes import (places, test_decisions_within_one_script, test_scene,  # pylint: disable=unused-import
                              test_scene_with_questions)


@pytest.fixture(params=["namespaces", "bubblewrap"])
def place(request, places):  # pylint: disable=redefined-outer-name
    return places.get(f"{request.param}-root")
