"""http/request where something goes wrong around it: redirects that would carry secrets away.

The other end is http_origin, on loopback; test_http_request has what goes right.
"""

import pytest

from farhand_client import Server
from http_origin import Origin
from test_http_request import HELPER, VARIABLES, headers, redirect, said

pytestmark = pytest.mark.skipif(HELPER is None, reason="farhand-net was not built: no libcurl")


@pytest.fixture(scope="module")
def server():
    with Server(env=VARIABLES) as s:
        yield s


@pytest.fixture
def origin():
    with Origin() as o:
        yield o


# Secrets of the server's environment

SECRET = [{"name": "X-Api-Key", "value": "", "valueEnvVar": "HTTP_TEST_FOO"},
          {"name": "X-Other-Key", "value": "v-", "valueEnvVar": "HTTP_TEST_FOO"}]


@pytest.mark.parametrize("streams", [False, True])
def test_a_header_from_a_variable_does_not_go_to_another_server(client, origin, streams):
    with Origin("127.0.0.2") as other:
        origin.on("/", redirect(307, other.url + "/to"))
        client.call("http/request", {"method": "GET", "url": origin.url, "requestId": "r", "streamResponse": streams,
                                     "headers": SECRET + headers(x_api="mine")}, timeout=20)
        first, then = dict(origin.requests[0].headers), dict(other.requests[0].headers)
        assert (first["x-api-key"], first["x-other-key"], first["x-api"]) == ("foo", "v-foo", "mine")
        assert not {"x-api-key", "x-other-key"} & set(then) and then["x-api"] == "mine"
        assert "foo" not in str(other.requests)


def test_a_header_from_a_variable_does_not_go_to_another_port_and_does_not_come_back(client, origin):
    with Origin() as other:
        origin.on("/", redirect(302, other.url + "/via"))
        other.on("/via", redirect(302, origin.url + "/back"))
        heard = said(client, origin.url, headers=SECRET)
        assert heard["target"] == "/back" and "foo" not in str(heard["headers"])
        assert "foo" not in str(other.requests) and "foo" in str(origin.requests[0])


def test_a_header_from_a_variable_stays_with_its_server(client, origin):
    origin.on("/", redirect(302, "/to"))
    sent = dict(said(client, origin.url, headers=SECRET)["headers"])
    assert (sent["x-api-key"], sent["x-other-key"]) == ("foo", "v-foo")


def test_as_many_headers_from_variables_as_a_request_may_have(client, origin):
    names = [f"x-{i:04}-{'n' * 240}" for i in range(1020)]
    many = [{"name": name, "value": "", "valueEnvVar": "HTTP_TEST_FOO"} for name in names]
    with Origin("127.0.0.2") as other:
        origin.on("/", redirect(302, other.url + "/to"))
        said(client, origin.url, headers=many)
        assert [value for name, value in origin.requests[0].headers if name in set(names)] == ["foo"] * 1020
        assert "foo" not in str(other.requests)
