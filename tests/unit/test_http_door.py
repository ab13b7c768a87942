"""Who may post to the HTTP receiver, and what it takes: tokens, sizes, rates, types, TLS, options."""

from __future__ import annotations

import json
import logging
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cdc_producers.http.options import HttpOptions
from helpers.certificates import self_signed
from helpers.http_receiver import ENVIRONMENT, PASSWORD, SECRET, USER, Client, in_process, in_thread, recorded, wait_for
from helpers.tiny_project import CQL, event, landed_ids

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.landing.producers import options_of

TABLE = "shop.orders"
Claims = dict[str, Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project of one table, and the receiver's secrets in the environment."""
    folder = tmp_path_factory.mktemp("door")
    (folder / "schema.cql").write_text(CQL)
    file = folder / "cdc_views.yml"
    tables = [{"name": TABLE, "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}]
    file.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield file


@pytest.fixture(scope="module")
def served(project: Path) -> Iterator[Client]:
    """A receiver that takes 4,000 bytes."""
    with in_thread(project, "--max-bytes", "4000") as (client, _):
        yield client


@pytest.fixture
def client(served: Client) -> Client:
    """A client that has signed in."""
    fresh = Client(served.port)
    assert fresh.sign_in().status == 200
    return fresh


def token(**more: Any) -> str:
    """A token as the receiver makes them, but for what is given; None leaves a claim out."""
    now = int(time.time())
    claims = {"iss": "cdc-views http receiver", "sub": USER, "kind": "access", "iat": now, "exp": now + 60}
    return signed({name: value for name, value in (claims | more).items() if value is not None})


def signed(claims: Claims, *, secret: str | None = SECRET, algorithm: str = "HS256") -> str:
    return jwt.encode(claims, secret, algorithm=algorithm)


def authorized(client: Client, header: str | None) -> tuple[int, str]:
    """Status and error of an event posted with this header."""
    headers = {} if header is None else {"Authorization": header}
    reply = Client(client.port)("/events", event(1), **headers)
    return reply.status, reply.json["error"] or ""


class TestTokens:
    def test_the_answer_has_the_fields_and_units_that_debezium_server_reads(self, served: Client) -> None:
        request = recorded()[0]
        reply = Client(served.port)(request["path"], request["body"], **{"content-type": "application/json"})
        assert reply.status == 200
        assert reply.json.keys() == json.loads(request["response"]).keys()
        asked = json.loads(request["body"])
        assert reply.json["expires_in"] == asked["token_expiry_in_minutes"] * 60_000
        assert reply.json["refresh_token_expires_in"] == asked["refresh_token_expiry_in_minutes"] * 60_000
        claims = jwt.decode(reply.json["jwt"], SECRET, algorithms=["HS256"], issuer="cdc-views http receiver")
        assert claims["exp"] - claims["iat"] == asked["token_expiry_in_minutes"] * 60

    def test_both_spellings_of_bearer_are_understood(self, client: Client) -> None:
        for scheme in ("Bearer:", "Bearer", "bearer"):
            assert authorized(client, f"{scheme} {client.token}")[0] == 200

    def test_a_refresh_token_gives_new_tokens_and_posts_no_events(self, client: Client) -> None:
        pair = client.sign_in().json
        again = client("/auth/refreshToken", {"jwt_refresh_token": pair["jwt_refresh_token"], "token_expiry_in_minutes": 7})
        assert (again.status, again.json["expires_in"]) == (200, 420_000)
        assert authorized(client, f"Bearer: {again.json['jwt']}")[0] == 200
        status, error = authorized(client, f"Bearer: {pair['jwt_refresh_token']}")
        assert (status, "no access token" in error) == (401, True)
        refused = client("/auth/refreshToken", {"jwt_refresh_token": pair["jwt"]})
        assert (refused.status, "no refresh token" in refused.error) == (401, True)

    @pytest.mark.parametrize(
        ("make", "expected"),
        [
            (lambda: None, "is missing"),
            (lambda: "", "is no `Bearer"),
            (lambda: token(), "is no `Bearer"),
            (lambda: f"Bearer:{token()}", "is no `Bearer"),
            (lambda: f"Basic {token()}", "is no `Bearer"),
            (lambda: f"Bearer: {token()} x", "is no `Bearer"),
            (lambda: f"Bearer: {token(exp=int(time.time()))}", "expired"),
            (lambda: f"Bearer: {token(exp=None)}", "not one of this receiver's"),
            (lambda: f"Bearer: {token(exp='soon')}", "expired"),
            (lambda: f"Bearer: {token(kind='refresh')}", "no access token"),
            (lambda: f"Bearer: {token(kind=None)}", "no access token"),
            (lambda: f"Bearer: {token(sub='other')}", "user that there is no more"),
            (lambda: f"Bearer: {token(iss='other')}", "not one of this receiver's"),
            (lambda: f"Bearer: {token()[:-4]}AAAA", "not one of this receiver's"),
            (lambda: "Bearer: " + token().rpartition(".")[0] + ".", "not one of this receiver's"),
            (lambda: "Bearer: a.b.c", "not one of this receiver's"),
        ],
    )
    def test_a_token_that_is_not_good_is_401_with_the_reason(self, client: Client, make: Any, expected: str) -> None:
        status, error = authorized(client, make())
        assert status == 401
        assert expected in error

    @pytest.mark.filterwarnings("ignore:The HMAC key")
    @pytest.mark.parametrize(
        ("secret", "algorithm"), [(None, "none"), (SECRET, "HS512"), ("another secret, as long as it is", "HS256")]
    )
    def test_only_hs256_with_the_secret_is_taken(self, client: Client, secret: str | None, algorithm: str) -> None:
        claims = jwt.decode(client.token, options={"verify_signature": False})
        assert authorized(client, f"Bearer: {signed(claims)}")[0] == 200
        status, error = authorized(client, f"Bearer: {signed(claims, secret=secret, algorithm=algorithm)}")
        assert (status, "not one of this receiver's" in error) == (401, True)

    def test_a_signature_is_of_these_claims(self, client: Client) -> None:
        _, other, _ = token(kind="access", sub=USER, exp=int(time.time()) + 10**6).split(".")
        head, _, signature = client.token.split(".")
        assert authorized(client, f"Bearer: {head}.{other}.{signature}")[0] == 401

    def test_tokens_outlive_a_restart_and_a_change_of_the_secret_ends_them(
        self, client: Client, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refresh = {"jwt_refresh_token": client.sign_in().json["jwt_refresh_token"]}
        with in_thread(project) as (again, _):
            assert authorized(again, f"Bearer: {client.token}")[0] == 200
            assert again("/auth/refreshToken", refresh).status == 200
        monkeypatch.setenv("CDC_VIEWS_HTTP_SECRET", SECRET[::-1])
        with in_thread(project) as (changed, _):
            assert authorized(changed, f"Bearer: {client.token}")[0] == 401
            assert changed("/auth/refreshToken", refresh).status == 401

    @pytest.mark.parametrize(
        ("asked", "status"),
        [
            ({"username": USER, "password": "wrong"}, 401),
            ({"username": "wrong", "password": PASSWORD}, 401),
            ({"username": USER, "password": PASSWORD + "x"}, 401),
            ({"username": USER}, 400),
            ({"username": USER, "password": 5}, 400),
            ({"username": USER, "password": PASSWORD, "token_expiry_in_minutes": 0}, 400),
            ({"username": USER, "password": PASSWORD, "token_expiry_in_minutes": True}, 400),
            ([USER, PASSWORD], 400),
            ("{", 400),
            ("x" * 20_000, 413),
        ],
    )
    def test_a_sign_in_that_is_wrong_gives_no_token(self, project: Path, served: Client, asked: Any, status: int) -> None:
        reply = Client(served.port)("/auth/authenticate", asked)
        assert (reply.status, "jwt" in reply.json) == (status, False)
        assert reply.error
        assert PASSWORD not in reply.body

    def test_failed_sign_ins_are_slowed_down_and_good_ones_are_not(self, project: Path) -> None:
        with in_thread(project) as (client, _):
            for _ in range(15):
                assert client.sign_in().status == 200
            statuses = [client("/auth/authenticate", {"username": USER, "password": "guess"}).status for _ in range(12)]
            assert statuses == [401] * 10 + [429] * 2
            assert int(client("/auth/authenticate", {"username": USER, "password": "guess"}).headers["retry-after"]) >= 1

    def test_whoever_fails_locks_nobody_out_who_shares_the_address(self, project: Path) -> None:
        with in_thread(project) as (client, _):
            refresh = client.sign_in().json["jwt_refresh_token"]
            for _ in range(12):
                last = client("/auth/authenticate", {"username": USER, "password": "guess"})
            assert last.status == 429
            assert client.sign_in().status == 200
            assert client("/auth/refreshToken", {"jwt_refresh_token": refresh}).status == 200
            assert client("/auth/refreshToken", {"jwt_refresh_token": "guess"}).status == 429

    @pytest.mark.parametrize(("proxies", "slowed"), [("", 2), ("127.0.0.1", 0)])
    def test_only_a_named_proxy_is_believed_who_says_to_be_another_address(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, proxies: str, slowed: int
    ) -> None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
        with in_thread(project) as (client, _):
            asked = {"username": USER, "password": "guess"}
            statuses = [client("/auth/authenticate", asked, **{"X-Forwarded-For": f"10.0.0.{i}"}).status for i in range(12)]
            assert statuses == [401] * (12 - slowed) + [429] * slowed


class TestRequests:
    def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_413(self, client: Client) -> None:
        padded = event(1).ljust(4000)
        assert client("/events", padded).status == 200
        reply = client("/events", padded + " ")
        assert (reply.status, "4,000 bytes" in reply.error) == (413, True)
        assert client("/events", padded * 100).status == 413

    def test_a_chunked_body_is_counted_as_well(self, client: Client) -> None:
        def chunks(count: int) -> Iterator[bytes]:
            yield event(1).encode()
            yield from [b" " * 500] * count

        assert client("/events", chunks(2)).status == 200
        assert client("/events", chunks(9)).status == 413

    def test_an_upgrade_to_http_2_is_passed_over(self, client: Client) -> None:
        upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAAAAMAAAAA"}
        assert client("/events", event(1), **upgrade).status == 200

    @pytest.mark.parametrize("kind", ["avro/bytes", "application/cloudevents+json", "application/x-protobuf"])
    def test_another_content_type_is_415_with_a_remedy(self, client: Client, kind: str) -> None:
        reply = client("/events", event(1), **{"content-type": kind})
        assert reply.status == 415
        assert "json" in reply.error.lower()
        assert client("/events", event(1), **{"Content-Encoding": "gzip"}).status == 415

    def test_more_than_the_rate_is_429_with_the_seconds_to_wait(self, project: Path) -> None:
        with in_thread(project, "--rate", "2") as (client, _):
            client.sign_in()
            replies = [client("/events", event(1)) for _ in range(6)]
            refused = [reply for reply in replies if reply.status == 429]
            assert refused
            assert {reply.headers["retry-after"] for reply in refused} == {"1"}
            wait_for(lambda: client("/events", event(1)).status == 200, seconds=5)

    def test_other_addresses_and_methods_are_json_as_well(self, client: Client) -> None:
        assert (client("/event").status, client.get("/events").status, client("/healthz").status) == (404, 405, 405)
        assert all(client(path).error for path in ("/event", "/healthz", "/station/x/produce/many"))
        assert client.get("/healthz").json == {"status": "ok", "failing": []}

    def test_nothing_secret_and_nothing_posted_is_logged_or_counted(
        self, project: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG), in_thread(project) as (client, log):
            client("/auth/authenticate", {"username": USER, "password": "a wrong one"})
            client.sign_in()
            client("/events", event(1, state="personal"))
            client("/events", '{"personal": 1')
            client(f"/station/{TABLE}/produce/single", event(1, state=["personal"]))  # type: ignore[arg-type]
            said = caplog.text + "\n".join(log.messages) + client.get("/metrics").body + client.get("/healthz").body
            assert "a sign-in from 127.0.0.1 failed" in said
            for text in (PASSWORD, SECRET, client.token, "a wrong one", "personal"):
                assert text not in said

    def test_a_mutation_of_cassandra_is_taken_by_what_it_says(self, client: Client, project: Path) -> None:
        assert client("/events", event(77)).json["landed"] == 1
        assert 77 in landed_ids(Project.load(project).table(TABLE).raw)

    def test_a_schema_change_is_answered_200_and_lands_nothing(self, client: Client) -> None:
        change = {"source": {"db": "shop", "table": "orders"}, "ddl": "ALTER TABLE orders ADD n int", "tableChanges": []}
        reply = client("/events", change)
        assert (reply.status, reply.json["landed"]) == (200, 0)

    def test_what_is_of_no_table_is_kept_and_the_status_says_who_may_mend_it(self, project: Path) -> None:
        for options, status in (((), 422), (("--unknown-table", "keep"), 202)):
            with in_thread(project, *options) as (client, _):
                client.sign_in()
                assert client("/events", event(1, table="nowhere")).status == status
                assert client("/events", "[1]").status == 202, "no table mends that"
        letters = (project.parent / "warehouse" / "http" / "receiver" / "dead_letters.jsonl").read_text()
        assert all(part in letters for part in ('"table": "shop.nowhere"', '"value": [1]'))

    def test_what_has_no_position_ranks_by_arrival(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "t.sql").write_text("CREATE TABLE public.t (id int PRIMARY KEY, note text);")
        file, tables = tmp_path / "cdc_views.yml", [{"name": "public.t", "schema": "t.sql", "raw": {"format": "key-value"}}]
        file.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
        with in_thread(file) as (client, _):
            client.sign_in()
            for note in ("z", "a"):
                record = {"key": {"id": 1}, "value": {"note": note}}
                assert client("/station/public.t/produce/single", record).status == 200
        assert list(Project.load(file).table("public.t").query().rows()) == [{"id": 1, "note": "a"}]


class TestOptions:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["--port", "x"], "valid integer"),
            (["--prt", "1"], "--prt"),
            (["--hold-seconds", "0"], "number of seconds"),
            (["--no-auth", "--host", "0.0.0.0"], "others could post"),
            (["--tls-cert", "x.pem"], "go together"),
            (["--tls-cert", "x.pem", "--tls-key", "y.pem"], "No such file"),
            (["--station", "todo=shop.order"], "no table 'shop.order'"),
            (["--station", "=shop.orders"], "no name"),
            (["--name", "a/b"], "letters, digits"),
        ],
    )
    def test_a_slip_exits_2_with_one_message(
        self, project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
    ) -> None:
        assert main(["produce", "http", "--project", str(project), *arguments]) == 2
        out, err = capsys.readouterr()
        assert (out, "Traceback" in err) == ("", False)
        assert expected in err

    @pytest.mark.parametrize("name", sorted(ENVIRONMENT))
    def test_without_the_secrets_it_does_not_start(
        self, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, "")
        assert main(["produce", "http", "--project", str(project)]) == 2
        assert f"{name}: not set" in capsys.readouterr().err
        monkeypatch.setenv("CDC_VIEWS_HTTP_SECRET", "short")
        monkeypatch.setenv(name, "short")
        assert main(["produce", "http", "--project", str(project)]) == 2
        assert PASSWORD not in capsys.readouterr().err

    def test_an_address_that_is_taken_exits_3(self, project: Path, served: Client, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["produce", "http", "--project", str(project), "--port", str(served.port)]) == 3
        assert "cannot listen there" in capsys.readouterr().err

    def test_help_needs_no_project(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["produce", "http", "--help", "--project", "nowhere.yml"]) == 0
        assert "--hold-seconds" in capsys.readouterr().out
        assert main(["produce", "--help"]) == 0
        assert "Events by HTTP" in capsys.readouterr().out

    def test_the_document_names_every_option_and_no_other(self) -> None:
        def named(text: str) -> set[str]:
            return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))

        told = named((Path(__file__).parents[2] / "docs" / "how-to" / "sources" / "http.md").read_text(encoding="utf-8"))
        mine = {one.flag for one in options_of(HttpOptions).values()}
        assert told == mine | {"--table", "--project", "--log-format"}
        assert named("`--prt 1`") - mine

    def test_an_unknown_producer_exits_2(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["produce", "htp"]) == 2
        assert "No such command 'htp'" in capsys.readouterr().err

    def test_without_authentication_anybody_posts(self, project: Path) -> None:
        with in_thread(project, "--no-auth") as (client, _):
            assert client("/events", event(1)).status == 200
            assert client("/auth/authenticate", {}).status == 404
            assert client("/events", event(1), **{"content-type": "text/plain"}).status == 415  # as a web page could
            assert client("/events", event(1), Host="example.com").status == 403


def test_tls(project: Path, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    trusted = ssl.create_default_context(cafile=certificate)
    with in_thread(project, *options) as (client, _):
        client.trusted = trusted
        client.sign_in()
        assert client("/events", event(1)).status == 200
        client.trusted = None
        with pytest.raises(OSError):
            client("/events", event(1))


def test_a_table_that_is_added_is_unknown_until_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "schema.cql").write_text(CQL + CQL.replace(TABLE, "shop.lines"))
    tables = [{"name": name, "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}} for name in (TABLE, "shop.lines")]
    file, options = tmp_path / "cdc_views.yml", ("--no-auth", "--port", "0")
    file.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables[:1]}))
    with in_process(tmp_path, *options) as (_, client):
        file.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
        wait_for(lambda: any("the next start of this producer" in log.read_text() for log in tmp_path.glob("receiver-*.log")))
        assert client("/events", event(1, table="lines")).status == 422
    with in_process(tmp_path, *options) as (_, client):
        assert client("/events", event(1, table="lines")).status == 200


def test_the_core_knows_no_producer() -> None:
    code = "import sys, cdc_views, cdc_views.cli; sys.exit(any(name.startswith('cdc_producers') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
