from __future__ import annotations

import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from unittest.mock import Mock

import pytest

from ope_bench.report.page.serve import LOOPBACK, Live, server
from ope_bench.store import Store

from .conftest import made


@pytest.fixture
def serving(stored):
    path = stored([made()])
    live = Live(path)
    serving = server(live)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield path, live, f"http://{LOOPBACK}:{serving.server_address[1]}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.status, answer.read().decode()


def test_what_is_served_follows_the_store(serving):
    path, live, address = serving
    _, text = get(f"{address}/data")
    first = json.loads(text)
    assert first["status"]["ok"] == 1
    assert get(f"{address}/data?seen={first['stamp']}") == (204, "")
    with Store.open(path, write=True) as store:
        run = store.begin_run(suite="adhoc", truth="empirical")
        store.add(made("dm"), run)
        live._next = 0.0
        second = json.loads(get(f"{address}/data?seen={first['stamp']}")[1])
    assert second["status"]["ok"] == 2
    assert second["stamp"] != first["stamp"]
    assert '"live":true' in get(address)[1]


def test_only_this_machine_is_answered(serving):
    _, _, address = serving
    assert address.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(address, Host="elsewhere.example")
    caught.value.close()
    assert caught.value.code == 403


@pytest.mark.parametrize(
    "request_lines", ["GET / HTTP/1.1\r\nHost: [", "GET http://[ HTTP/1.1\r\nHost: localhost"]
)
def test_a_malformed_request_is_answered_as_one(serving, request_lines, capfd):
    host, port = serving[2].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(f"{request_lines}\r\nConnection: close\r\n\r\n".encode())
        assert b" 400 " in line.makefile("rb").readline()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"x" * 9_000)])
def test_a_store_that_is_missing_or_broken_is_told_to_the_browser(serving, capfd, change):
    path, _, address = serving
    change(path)
    for page in ("", "/data"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(f"{address}{page}")
        with caught.value as answer:
            assert answer.code == 503
            assert str(path) in answer.read().decode()
    assert capfd.readouterr().err == ""


def test_a_browser_that_goes_away_is_no_error_and_a_bug_is_one(serving, monkeypatch, capfd):
    _, live, address = serving
    for error in (ConnectionResetError, ZeroDivisionError):
        monkeypatch.setattr(live, "page", Mock(side_effect=error))
        with pytest.raises(http.client.RemoteDisconnected):
            get(address)
        assert (error.__name__ in capfd.readouterr().err) is (error is ZeroDivisionError)


def test_nothing_else_is_served(serving):
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(f"{serving[2]}/store.sqlite")
    caught.value.close()
    assert caught.value.code == 404
