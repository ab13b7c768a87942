"""`cdc-views ui` for other machines: encrypted, with a token; nothing else gets an answer."""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from helpers.certificates import self_signed
from helpers.tiny_project import event, make_project, write_lines
from helpers.ui_served import serving_ui

from cdc_views.api import Project
from cdc_views.cli import main

TOKEN, STATE = "a-token-of-thirty-letters-or-so", "shipped by sea"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    make_project(folder)
    write_lines(folder / "a.jsonl", event(1, state=STATE))
    Project.load(folder / "cdc_views.yml").table("orders").land(folder / "a.jsonl")
    self_signed(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    options = ("--tls-certificate", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"), "--token-env", "UI_TOKEN")
    with serving_ui(folder / "cdc_views.yml", *options, environment={**os.environ, "UI_TOKEN": TOKEN}) as served:
        yield served.address


def trusting(address: str, folder: Path) -> http.client.HTTPSConnection:
    """A connection that trusts the certificate and nobody else's."""
    place = urlsplit(address)
    trusted = ssl.create_default_context(cafile=folder / "cert.pem")
    return http.client.HTTPSConnection(place.hostname or "", place.port, timeout=60, context=trusted)


def test_who_knows_the_token_enters_and_reads(folder: Path, address: str) -> None:
    assert address.startswith("https://")
    asks = trusting(address, folder)
    asks.request("GET", "/t/shop_orders/rows")
    stranger = asks.getresponse()
    assert (stranger.status, STATE in stranger.read().decode()) == (401, False)
    form = {"content-type": "application/x-www-form-urlencoded", "origin": address.rstrip("/")}
    asks.request("POST", "/login", body=urlencode({"token": TOKEN}), headers=form)
    entered = asks.getresponse()
    entered.read()
    cookie = entered.headers["set-cookie"]
    assert {"HttpOnly", "Secure", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    asks.request("GET", "/t/shop_orders/rows", headers={"cookie": cookie.split(";")[0]})
    page = asks.getresponse()
    assert (page.status, STATE in page.read().decode()) == (200, True)


def test_without_encryption_nobody_gets_an_answer(address: str) -> None:
    place = urlsplit(address)
    plain = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    plain.request("GET", "/", headers={"authorization": f"Bearer {TOKEN}"})
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()


def test_a_reader_who_does_not_know_the_certificate_leaves(address: str) -> None:
    place = urlsplit(address)
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection(place.hostname or "", place.port, timeout=60).request("GET", "/")


def test_a_key_of_another_certificate_is_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, other = self_signed(tmp_path)
    options = ("--tls-certificate", str(folder / "cert.pem"), "--tls-key", str(other), "--port", "0")
    assert main(["ui", "--project", str(folder / "cdc_views.yml"), *options]) == 3
    assert "and its key cannot be used" in capsys.readouterr().err
