"""The access vectors through file requests where there are no namespaces of our own: with Landlock, and beside bubblewrap.

What such a back end does not claim it refuses, whole; everything else has the answers of the vectors.
"""

import pytest

from sandbox_rig import USERS, rig_of
from test_sandbox_access import CASES
from test_sandbox_backends import need_landlock
from test_sandbox_bwrap import REAL
from test_sandbox_fs_access import judge

REFUSAL = "sandbox intent cannot be enforced on this executor: "


@pytest.fixture(scope="module", params=[(backend, user) for backend in ("landlock", "bubblewrap") for user in USERS],
                ids="-".join)
def rig(request):
    backend, user = request.param
    need_landlock()
    if backend == "bubblewrap" and REAL is None:
        pytest.skip("no bwrap")
    with rig_of(user, args=["--sandbox-backend", backend]) as r:
        yield r


def is_claimed(case):
    """Not: the whole machine writable but for something, whose settings would be too; and files in the machine's /dev,
    which is not a private one here."""
    files = case["profile"].get("file_system", {})
    entries = files.get("entries", [])
    places = [(entry["path"], entry["access"]) for entry in entries]
    writes_all = any(path.get("value", {}).get("kind") == "root" and access == "write"
                     for path, access in places if path["type"] == "special")
    in_dev = any(str(path.get("path", "")).removeprefix("file://").startswith("/dev") for path, _ in places)
    return not in_dev and not (writes_all and any(access != "write" for _, access in places))


@pytest.mark.parametrize("name", CASES)
def test_access(rig, name):
    case = CASES[name]
    wrong = [(check, text) for check in case["checks"]
             if not check["path"].startswith("/dev/") and (text := judge(rig, name, check))]
    if is_claimed(case):
        assert not wrong, "\n".join(text for _, text in wrong)
    for check, text in wrong:
        assert REFUSAL in text, text
