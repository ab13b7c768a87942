"""How a store is reached: URLs, options of either library, and what is said of a store that refuses or is not there."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from deltalake import write_deltalake
from helpers.command_line import CommandLine
from helpers.tiny_project import CQL, event
from services import azure, gcs
from services.stores import Store

from cdc_views.errors import ConfigError, EngineError, TransientError, UnsupportedError
from cdc_views.landing.raw_table import is_delta
from cdc_views.storage.places import place_of
from cdc_views.storage.store_paths import StorePath
from cdc_views.storage.stores import explained, options_of, split, use_options

_PREFIX = re.compile("^(AWS|AZURE_STORAGE|GOOGLE)_")
SPELLED: dict[str, Callable[[str], str]] = {
    "deltalake's": str,
    "in small letters": str.lower,
    "obstore's": lambda name: _PREFIX.sub("", name).lower(),
}


@pytest.mark.parametrize(
    ("url", "parts"), [("s3://b/a/c/", ("s3://b", "a/c")), ("gs://b", ("gs://b", "")), ("S3://b/k", ("s3://b", "k"))]
)
def test_a_url_has_a_bucket_and_a_key(url: str, parts: tuple[str, str]) -> None:
    assert (split(url)[0].lower(), split(url)[1]) == parts


@pytest.mark.parametrize("url", ["ftp://b/k", "s3:///k", "hdfs://n/k"])
def test_an_unknown_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="s3"):
        place_of(url)


def test_a_file_url_is_a_local_path() -> None:
    assert place_of("file:///a%20b") == place_of("file:/a%20b") == Path("/a b")
    assert isinstance(place_of("s3://b/k"), StorePath)
    assert PurePosixPath(str(place_of("s3://b/k"))).name == "k"


def test_options_are_those_of_the_longest_url_above() -> None:
    use_options("s3://longest/a", {"AWS_REGION": "one"})
    use_options("s3://longest/a/b", {"AWS_REGION": "two"})
    found = [options_of(url).get("AWS_REGION") for url in ("s3://longest/a/x", "s3://longest/a/b/x", "s3://longest/ab", "/a")]
    assert found == ["one", "two", None, None]


def test_an_endpoint_without_tls_is_taken_as_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert options_of("s3://by-environment/a") == {"allow_http": "true"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:1")
    assert options_of("s3://by-environment/a") == {}


WAITING = {"timeout": "30s", "max_retries": "1", "retry_timeout": "30s", "allow_http": "true"}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_an_option_wins_over_the_environment_as_either_library_spells_it(
    prefix: str, store: Store, spelled: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.options(port=1).items():
        monkeypatch.setenv(name, value)
    url = f"{prefix}/spelled"
    use_options(url, {**{spelled(name): value for name, value in store.options().items()}, **WAITING})
    for _ in range(3):
        write_deltalake(url, pa.table({"n": [1]}), mode="append", storage_options=options_of(url))
    assert is_delta(url)
    assert sorted(place.name for place in StorePath.of(f"{url}/_delta_log").glob("*.json")) == [f"{n:020}.json" for n in range(3)]


def test_how_long_to_wait_reaches_either_library(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr("obstore.store.from_url", lambda _, **more: told.append(more))
    use_options("gs://waited-for/a", WAITING)
    assert options_of("gs://waited-for/a") == WAITING
    retries = {"max_retries": 1, "retry_timeout": timedelta(seconds=30)}
    assert told == [{"client_options": {"timeout": "30s", "allow_http": "true"}, "retry_config": retries}]


def test_options_of_s3_have_the_names_that_hadoop_s_settings_look_for() -> None:
    use_options("s3://spelled/a", {"region": "x", "aws_access_key_id": "y", "SECRET_ACCESS_KEY": "z", "endpoint": "http://h"})
    named = {"AWS_REGION": "x", "AWS_ACCESS_KEY_ID": "y", "AWS_SECRET_ACCESS_KEY": "z", "AWS_ENDPOINT_URL": "http://h"}
    assert options_of("s3://spelled/a") == {**named, "allow_http": "true"}


def ways(store: Store, folder: Path) -> Iterator[dict[str, str]]:
    """Other ways to say who asks: a token of Azure's, its emulator, and files of Google's."""
    if isinstance(store, azure.Azure):
        options = store.options()
        del options["AZURE_STORAGE_ACCOUNT_KEY"]
        yield {**options, "AZURE_STORAGE_SAS_TOKEN": store.shared_access()}
        yield {"AZURE_STORAGE_USE_EMULATOR": "true"}
    else:
        account = json.loads(store.options()["GOOGLE_SERVICE_ACCOUNT_KEY"])
        (folder / "account.json").write_text(json.dumps({**account, "type": "service_account"}))
        yield {"GOOGLE_SERVICE_ACCOUNT": str(folder / "account.json")}
        yield {"GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"), "GOOGLE_BASE_URL": account["gcs_base_url"]}


@pytest.mark.parametrize("store", ["azure", "gcs"], indirect=True)
@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("by", ["options", "environment"])
def test_who_asks_is_said_in_other_ways(
    store: Store, way: int, by: str, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{store.port}")
    told = [*ways(store, tmp_path)][way]
    for name, value in told.items() if by == "environment" else ():
        monkeypatch.setenv(name, value)
    url = f"{prefix}/said"
    use_options(url, told if by == "options" else {})
    write_deltalake(url, pa.table({"n": [1]}), storage_options=options_of(url))
    assert is_delta(url)
    assert StorePath.of(f"{url}/_delta_log/{0:020}.json").is_file()


def test_a_change_of_the_environment_counts_in_the_same_process(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    use_options(f"{store.url()}/later", {"max_retries": "1"})
    place = StorePath.of(f"{store.url()}/later/file")
    for port in (1, store.port):
        for name, value in store.options(port=port).items():
            monkeypatch.setenv(name, value)
        if port == 1:
            with pytest.raises(TransientError):
                place.exists()
    assert not place.exists()


def test_the_endpoint_of_one_cloud_is_not_another_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1")
    assert options_of("s3://by-environment/b") == {}


@pytest.mark.parametrize(("name", "value"), [("AWS_S3_ALLOW_UNSAFE_RENAME", "true"), ("AWS_CONDITIONAL_PUT", "disabled")])
def test_unsafe_commits_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    use_options("s3://unsafe/b", {name.lower(): value})
    with pytest.raises(UnsupportedError, match=name.lower()):
        options_of("s3://unsafe/b")
    monkeypatch.setenv(name, value)
    with pytest.raises(UnsupportedError, match=name):
        options_of("s3://unsafe/a")


Ask = Callable[[StorePath], object]
ASKED: dict[str, Ask] = {
    "read": StorePath.read_bytes,
    "list": lambda place: list(place.iterdir()),
    "write": lambda place: place.write_bytes(b""),
    "delete": lambda place: place.unlink(missing_ok=True),
    "open": lambda place: is_delta(str(place)),
}
asked = pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)


@asked
def test_a_store_that_does_not_answer_is_no_missing_file(store: Store, ask: Ask) -> None:
    url = store.url("nobody")
    use_options(url, {**store.options(port=1), "max_retries": "1"})
    with pytest.raises(TransientError, match=f"^{url}/file: the store did not answer: .*:1/.*correct the .* endpoint$"):
        ask(StorePath.of(f"{url}/file"))


@asked
def test_a_bucket_that_is_not_there(store: Store, ask: Ask) -> None:
    url = store.url("no-such-bucket")
    use_options(url, store.options())
    with pytest.raises(ConfigError, match=f"^{url}: there is no such (bucket|container); create it"):
        ask(StorePath.of(f"{url}/file"))


def others_credentials(store: Store) -> dict[str, str]:
    """Options that are right but for the key."""
    if isinstance(store, gcs.Gcs):
        return store.options(key=generate_private_key(65537, 2048))
    return {**store.options(), "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"another").decode()}


@pytest.mark.parametrize("store", ["azure", "gcs"], indirect=True)  # moto takes any
@asked
def test_credentials_that_are_another_s(store: Store, ask: Ask) -> None:
    url = f"{store.url()}/refused"
    use_options(url, others_credentials(store))
    with pytest.raises(EngineError, match=f"^{url}/file: the store refuses: .*40[13].*; check the credentials") as raised:
        ask(StorePath.of(f"{url}/file"))
    assert not isinstance(raised.value, TransientError)


WRONG = {
    "s3://wrong": {"AWS_REGOIN": "x"},
    "abfss://lake@wrong.dfs.core.windows.net": {"AZURE_STORAGE_ACCOUNT_KEY": "no base64!"},
    "abfss://lake": {"AZURE_STORAGE_ACCOUNT_KEY": azure.KEY},
    "gs://wrong": {"GOOGLE_SERVICE_ACCOUNT": "/no/file"},
    "gs://wrong-key": {"GOOGLE_SERVICE_ACCOUNT_KEY": "{}"},
}


@asked
@pytest.mark.parametrize("url", WRONG)
def test_an_option_that_no_store_takes(url: str, ask: Ask) -> None:
    use_options(url, WRONG[url])
    with pytest.raises(ConfigError, match=f"^storage_options of {url}, or the environment's: .*docs/how-to/object-store.md$"):
        ask(StorePath.of(f"{url}/file"))


def test_an_error_does_not_show_a_key() -> None:
    use_options("gs://shown", {"GOOGLE_SERVICE_ACCOUNT": json.dumps({"private_key": "hidden"})})
    with pytest.raises(ConfigError, match="service account") as raised:
        options_of("gs://shown")
    assert "hidden" not in str(raised.value)


LAND = ("land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders")


def write_tiny_project(folder: Path, warehouse: str, options: dict[str, str]) -> None:
    table = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    project = {"name": "t", "engine": "duckdb", "warehouse": warehouse, "storage_options": options, "tables": [table]}
    (folder / "schema.cql").write_text(CQL)
    (folder / "cdc_views.yml").write_text(json.dumps(project))
    (folder / "events.jsonl").write_text(f"{event(1)}\n")


@pytest.mark.parametrize(
    ("kind", "what", "code"),
    [(kind, what, code) for kind in ("s3", "azure", "gcs") for what, code in (("bucket", 2), ("option", 2), ("address", 3))]
    + [("azure", "key", 3), ("gcs", "key", 3), ("s3", "scheme", 2), ("s3", "value", 2)],
)
def test_a_command_ends_with_one_error(
    kind: str,
    what: str,
    code: int,
    servers: Callable[[str], Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store, bucket = servers(kind), "lake"
    options = store.options()
    if what == "bucket":
        bucket = "no-such-bucket"
    elif what == "option":
        options["no_option"] = "x"
    elif what == "value":
        options["retry_timeout"] = "soon"
    elif what == "address":
        options = {**store.options(port=1), "max_retries": "1"}
    elif what == "key":
        options = others_credentials(store)
    url = f"{store.url(bucket)}/{what}"
    write_tiny_project(tmp_path, url.replace("s3", "ftp") if what == "scheme" else url, options)
    monkeypatch.chdir(tmp_path)
    run = CommandLine(capsys)
    for command in (("query", "shop.orders"), ("materialize",), LAND):
        answer = run(*command)
        lines = answer.err.splitlines()
        assert (answer.code, len(lines), lines[0][:7]) == (code, 1, "error: "), answer.err


@pytest.mark.parametrize("store", ["azure", "gcs"], indirect=True)
def test_spark_without_jars_for_a_store_says_what_to_do(
    store: Store, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    write_tiny_project(tmp_path, prefix, store.options())
    monkeypatch.chdir(tmp_path)
    run = CommandLine(capsys)
    assert run(*LAND).code == 0
    for command in (("query", "shop.orders", "--engine", "spark"), ("materialize", "--engine", "spark")):
        answer = run(*command)
        assert (answer.code, len(answer.err.splitlines())) == (2, 1), answer.err
        assert re.match(f"error: .*{prefix}: .*the jars for S3 alone; open a session that reads .*:// first", answer.err)


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ("Error performing PUT http://169.254.169.254/latest/api/token: timed out", ConfigError, "no credentials"),
        ("Generic GCS error: Error performing GET http://metadata.google.internal/x", ConfigError, "no credentials"),
        ("The bucket you try to access: <Code>PermanentRedirect</Code>", ConfigError, "correct AWS_REGION"),
        ("<Code>AuthorizationHeaderMalformed</Code>: the region 'a' is wrong; expecting 'b'", ConfigError, "correct AWS_REGION"),
        ("Error performing POST https://login/oauth2/token: 401: AADSTS7000215: Invalid client secret", EngineError, "refuses"),
        ("Error performing token request: 400 Bad Request: invalid_grant: Invalid JWT Signature", EngineError, "refuses"),
        ("Error performing GET https://s3/a: 403 Forbidden: <Code>AccessDenied</Code>", EngineError, "refuses"),
        ("Error performing GET https://s3/a: 503 Slow Down", TransientError, "run the command again"),
    ],
)
def test_what_a_store_says_becomes_what_to_do(said: str, kind: type[Exception], told: str) -> None:
    found = explained("s3://lake/a", RuntimeError(f"Generic error\n   \x1b[31m↳\x1b[0m {said}"))
    assert (type(found), found.exit_code) == (kind, 2 if kind is ConfigError else 3)
    assert told in str(found)
    assert "\x1b" not in str(found)
