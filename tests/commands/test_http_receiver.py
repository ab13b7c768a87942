"""The HTTP receiver: what was answered 200 has landed, whatever fails; what cannot land is kept and told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.http.table_queue import TableWriter
from deltalake import DeltaTable
from helpers.debezium_rows import FULL_NINE, ONE, RETOASTED, THREE, UPDATED, Row, shown
from helpers.http_receiver import DATA, ENVIRONMENT, Client, in_process, in_thread, recorded, replay, wait_for

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.landing import quarantine_location

pytestmark = pytest.mark.heavy

TYPES, FULL = "public.t_types", "public.t_full"
ADDED = "alter table public.t_types add column vc2 text; alter table public.t_full add column extra int;\n"
"""What the source's statements did while the events were recorded (a column renamed, a column added)."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the recorded tables, and the receiver's secrets in the environment."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "schema.sql").write_text((DATA / "postgres_schema.sql").read_text() + ADDED)
    tables = [{"name": name, "schema": "schema.sql", "raw": {"format": "debezium"}} for name in (TYPES, FULL)]
    file = tmp_path / "cdc_views.yml"
    file.write_text(json.dumps({"name": "lab", "engine": "duckdb", "tables": tables}))
    return file


@pytest.fixture
def client(project: Path) -> Iterator[Client]:
    """A client of a receiver, signed in."""
    with in_thread(project) as (made, _):
        made.sign_in()
        yield made


def event(number: int, *, table: str = "t_full", lsn: int | None = None, **after: Any) -> Row:
    """An insert into t_full, as Debezium tells it."""
    source = {"connector": "postgresql", "name": "lab", "ts_ms": 1, "db": "lab", "schema": "public", "table": table}
    position = {"lsn": number if lsn is None else lsn, "snapshot": "false"}
    return {"before": None, "after": {"id": number, "v": f"v{number}", **after}, "source": source | position, "op": "c"}


def view(project: Path, name: str = FULL, **options: Any) -> list[Row]:
    """The rows of a table's view, as JSON of exact numbers."""
    rows = Project.load(project).table(name).query(**options).json_rows()
    return [{column: json.loads(text, parse_float=Decimal) for column, text in row.items()} for row in rows]


def ids(project: Path) -> list[int]:
    return [row["id"] for row in view(project, columns=["id"])]


def commits(project: Path, name: str = FULL) -> int:
    return int(DeltaTable(Project.load(project).table(name).raw.location).version())


def quarantined(project: Path, name: str = FULL) -> list[Row]:
    location = quarantine_location(Project.load(project).table(name).raw)
    return DeltaTable(location).to_pyarrow_dataset().to_table().to_pylist() if DeltaTable.is_deltatable(location) else []


def dead_letters(project: Path) -> list[Row]:
    file = project.parent / "warehouse" / "http" / "receiver" / "dead_letters.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class TestRecorded:
    """What a real Debezium Server 3.6 sent."""

    def test_each_request_is_answered_200_and_the_views_equal_the_source(self, project: Path) -> None:
        requests = recorded()
        retoasted = next(index for index, request in enumerate(requests) if "VVVV" in request["body"]) + 1
        with in_thread(project) as (client, _):
            assert {reply.status for reply in replay(client, requests[:retoasted])} == {200}
            before = [{**row, "vc2": None} for row in (ONE, THREE, RETOASTED)]
            assert shown(view(project, TYPES)) == shown(before)
            client.sign_in()
            events = [request for request in requests[retoasted:] if request["path"] == "/events"]
            assert {reply.status for reply in replay(client, events)} == {200}
        assert shown(view(project, TYPES)) == shown([{**ONE, "vc2": None}])
        assert view(project) == [FULL_NINE]
        assert (quarantined(project), quarantined(project, TYPES), dead_letters(project)) == ([], [], [])

    def test_sent_twice_and_backwards_the_views_are_the_same(self, project: Path) -> None:
        events = [request for request in recorded() if request["path"] == "/events"]
        with in_thread(project) as (client, _):
            client.sign_in()
            assert {reply.status for reply in replay(client, [*events, *reversed(events)])} == {200}
        assert shown(view(project, TYPES)) == shown([{**ONE, "vc2": None}])
        assert view(project) == [FULL_NINE]

    def test_a_comparison_notices_a_lost_event(self, project: Path) -> None:
        requests = [request for request in recorded() if "VVVV" not in request["body"]]
        moved = next(index for index, request in enumerate(requests) if '"id":22' in request["body"]) + 1
        with in_thread(project) as (client, _):
            replay(client, requests[:moved])
        found = shown(view(project, TYPES))
        assert found != shown([{**row, "vc2": None} for row in (ONE, THREE, RETOASTED)])
        assert found == shown([{**row, "vc2": None} for row in (ONE, THREE, {**UPDATED, "id": 22, "toast": None})])


class TestKeptAside:
    """Events that cannot land: kept, told, and never a reason for Debezium Server to end."""

    def test_a_poison_event_of_a_table_goes_to_its_quarantine_and_is_answered_202_with_the_reason(
        self, client: Client, project: Path
    ) -> None:
        reply = client("/events", event(9, id="hunter2"))
        assert (reply.status, "'id'" in reply.error, "hunter2" in str(reply.json)) == (202, True, False), reply.error
        reply = client("/events", event(1, nonsense=1))
        assert "nonsense" in reply.error
        assert reply.json["landed"] == 0
        assert client("/events", event(2)).status == 200
        assert ids(project) == [2]
        kept = next(one for one in quarantined(project) if b"nonsense" in one["event"])
        assert (json.loads(kept["event"]), kept["source"]) == (event(1, nonsense=1), "http:receiver")

    @pytest.mark.parametrize(
        ("body", "reason"), [(b"{", "not JSON"), (b"\xff", "UTF-8"), (b"", "not JSON"), (b"[" * 99999, "JSON")]
    )
    def test_what_is_no_json_goes_to_quarantine_or_dead_letters_byte_by_byte(
        self, client: Client, project: Path, body: bytes, reason: str
    ) -> None:
        to_table, to_nobody = client(f"/station/{FULL}/produce/single", body), client("/events", body)
        assert (to_table.status, to_nobody.status) == (202, 202)
        assert reason in to_table.error
        assert reason in to_nobody.error
        assert [row["event"] for row in quarantined(project)] == [body]
        assert len(dead_letters(project)) == 1

    def test_an_unknown_table_is_answered_422_and_kept_once_however_often_it_comes(self, client: Client, project: Path) -> None:
        for _ in range(5):
            reply = client("/events", event(1, table="t_ful"))
            assert reply.status == 422
        assert "did you mean 'public.t_full'?" in reply.error
        (kept,) = dead_letters(project)
        assert (kept["table"], kept["value"]) == ("lab.public.t_ful", event(1, table="t_ful"))
        assert client.metric("events_total", outcome="dead_letter") == 1

    def test_an_event_that_names_no_table_is_422_with_a_remedy_and_kept_again_once_the_file_was_taken_away(
        self, client: Client, project: Path
    ) -> None:
        for _ in range(2):
            reply = client("/events", {"id": 1, "v": "x"})
            assert (reply.status, "add.fields" in reply.error) == (422, True)
            assert len(dead_letters(project)) == 1
            (project.parent / "warehouse" / "http" / "receiver" / "dead_letters.jsonl").unlink()

    def test_dead_letters_land_once_the_project_has_their_table(
        self, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        number = '{"id": 7, "v": "1.10", "toast": null}'
        body = json.dumps(event(7)).replace(json.dumps(event(7)["after"]), number).replace("{", "{\n", 1)
        with in_thread(project, "--unknown-table", "keep", "--name", "second") as (client, _):
            client.sign_in()
            assert client("/station/elsewhere/produce/single", body).status == 202
        letters = tmp_path / "warehouse" / "http" / "second" / "dead_letters.jsonl"
        assert number in letters.read_text()
        assert main(["land", "debezium", str(letters), "--table", FULL, "--project", str(project)]) == 0
        capsys.readouterr()
        assert ids(project) == [7]

    def test_a_forgotten_key_leaves_dead_letters_too(
        self, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        letters = tmp_path / "warehouse" / "http" / "receiver" / "dead_letters.jsonl"
        with in_thread(project, "--unknown-table", "keep") as (client, _):
            client.sign_in()
            client("/events", event(1))
            for number in (7, 8):
                client("/station/elsewhere/produce/single", event(number, toast=f"private of {number}"))
            client("/station/elsewhere/produce/single", b"no JSON")
            of_id = ["forget", FULL, "--key", '{"id": 7}', "--project", str(project)]
            assert main([*of_id, "--dry-run"]) == 0
            assert "private of 7" in letters.read_text()
            capsys.readouterr()
            assert main([*of_id, "--format", "json"]) == 0
            assert "dead letters" in capsys.readouterr().out
            for number in (9, 7):
                client("/station/elsewhere/produce/single", event(number, toast=f"later of {number}"))
        told = [json.loads(line) for line in letters.read_text().splitlines()]
        assert [line.get("forgotten", "of 7" in str(line) and "later") for line in told] == [True, False, False, False, "later"]
        assert main(["land", "debezium", str(letters), "--table", FULL, "--project", str(project)]) == 1
        assert ids(project) == [1, 8, 9]

    def test_heartbeats_and_transactions_say_nothing_of_rows(self, client: Client, project: Path) -> None:
        for notice in ({"ts_ms": 1}, {"status": "BEGIN", "id": "1:2", "event_count": None, "data_collections": None, "ts_ms": 1}):
            reply = client("/events", notice)
            assert (reply.status, reply.json["landed"]) == (200, 0)
        assert dead_letters(project) == []

    def test_dead_letters_that_cannot_be_kept_are_503(self, client: Client, project: Path) -> None:
        folder = project.parent / "warehouse" / "http"
        folder.parent.mkdir(exist_ok=True)
        folder.write_text("a file where a folder should be")
        assert client("/events", event(1, table="nowhere")).status == 503
        folder.unlink()
        assert client("/events", event(1, table="nowhere")).status == 422
        assert len(dead_letters(project)) == 1


class TestStations:
    """Memphis' way to post."""

    def test_single_and_batch_under_both_spellings(self, project: Path) -> None:
        with in_thread(project, "--station", f"todo={FULL}") as (client, _):
            client.sign_in()
            assert client("/station/todo/produce/single", event(1)).json == {"success": True, "error": None, "landed": 1}
            assert client(f"/stations/{FULL}/produce/batch", [event(2), event(3)]).json["landed"] == 2
            assert client("/stations/todo/produce/batch", []).json["landed"] == 0
        assert ids(project) == [1, 2, 3]

    def test_a_batch_is_a_commit_a_table_and_says_which_of_its_events_were_kept_aside(self, project: Path) -> None:
        with in_thread(project, "--station", "cdc") as (client, _):
            client.sign_in()
            good = [event(4), *(event(n, table="t_types") | {"after": {"id": n}} for n in (5, 6))]
            bad = [event(2, nonsense=1), event(3, table="t_types")]
            reply = client("/station/cdc/produce/batch", [event(1), *bad, {"ts_ms": 1}, *good])
            assert (reply.status, reply.json["landed"], commits(project), commits(project, TYPES)) == (202, 4, 1, 1)
            assert [kept["index"] for kept in reply.json["kept"]] == [1, 2]  # t_types has no column v
            assert client("/station/cdc/produce/batch", [event(7), event(8, table="nowhere")]).status == 422
        assert ids(project) == [1, 4, 7]

    def test_a_batch_of_a_table_is_one_commit_and_its_numbers_keep_their_letters(self, client: Client, project: Path) -> None:
        assert client(f"/station/{FULL}/produce/batch", [event(number) for number in range(1, 301)]).json["landed"] == 300
        assert commits(project) == 1
        assert ids(project) == list(range(1, 301))

    def test_an_unknown_station_is_404_with_a_suggestion_and_its_events_are_kept(self, client: Client, project: Path) -> None:
        reply = client("/station/public.t_ful/produce/single", event(1))
        assert reply.status == 404
        assert "did you mean 'public.t_full'?" in reply.error
        assert len(dead_letters(project)) == 1


class TestLosesNothing:
    """200 only once landed; whatever fails, the sender still has the event."""

    def test_events_of_eight_clients_land_in_fewer_commits_than_events_and_each_gets_its_own_answer(
        self, client: Client, project: Path
    ) -> None:
        poisoned = set(range(20, 401, 20))

        def posted(number: int) -> int:
            return client("/events", event(number, **({"nonsense": 1} if number in poisoned else {}))).status

        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(posted, range(1, 401)))
        assert statuses == [202 if number in poisoned else 200 for number in range(1, 401)]
        assert ids(project) == [number for number in range(1, 401) if number not in poisoned]
        assert {json.loads(row["event"])["after"]["id"] for row in quarantined(project)} == poisoned
        assert commits(project) < 300
        assert client.metric("commits_total", table=FULL) == commits(project)
        assert client.metric("events_total", table=FULL, outcome="landed") == 380

    def test_a_receiver_that_answered_before_it_landed_would_be_noticed(
        self, client: Client, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = TableWriter.land
        monkeypatch.setattr(
            TableWriter, "land", lambda writer, events: None if b"v3" in events[0].content else real(writer, events)
        )
        assert [client("/events", event(number)).status for number in range(1, 6)] == [200] * 5
        assert ids(project) == [1, 2, 4, 5]

    def test_a_target_that_is_gone_is_503_and_lands_again_once_it_is_back(self, project: Path) -> None:
        with in_thread(project, "--hold-seconds", "0.3") as (client, _):
            client.sign_in()
            wait_for(lambda: client("/events", event(1)).status == 200)  # the table is created first
            raw = Path(Project.load(project).table(FULL).raw.location)
            away = raw.rename(raw.with_name("away"))
            reply = client("/events", event(2))
            assert (reply.status, int(reply.headers["retry-after"]) >= 1, "send them again" in reply.error) == (503, True, True)
            assert not raw.exists()  # a disk that is not mounted must not get a table of its own
            assert (client.get("/healthz").status, client.metric("failing", table=FULL)) == (503, 1)
            wait_for(lambda: client("/events", event(1, table="t_types") | {"after": {"id": 1}}).status == 200)  # others go on
            away.rename(raw)
            wait_for(lambda: client("/events", event(2)).status == 200)
            assert (client.get("/healthz").status, client.metric("failing", table=FULL)) == (200, 0)
        assert ids(project) == [1, 2]

    def test_a_short_failure_of_the_target_is_waited_for(self, project: Path) -> None:
        with in_thread(project) as (client, _), ThreadPoolExecutor(1) as pool:
            client.sign_in()
            client("/events", event(1))
            raw = Path(Project.load(project).table(FULL).raw.location)
            away = raw.rename(raw.with_name("away"))
            answer = pool.submit(client, "/events", event(2))
            wait_for(lambda: client.metric("failing", table=FULL) == 1)
            away.rename(raw)
            assert answer.result(timeout=20).status == 200
        assert ids(project) == [1, 2]

    def test_a_receiver_that_stops_gives_back_what_it_cannot_land(self, project: Path) -> None:
        with ThreadPoolExecutor(1) as pool:
            with in_thread(project) as (client, _):
                client.sign_in()
                client("/events", event(1))
                raw = Path(Project.load(project).table(FULL).raw.location)
                raw.rename(raw.with_name("away"))
                answer = pool.submit(client, "/events", event(2))
                wait_for(lambda: client.metric("failing", table=FULL) == 1)
            assert answer.result(timeout=20).status == 503

    @pytest.mark.parametrize("most", [("--waiting", "2"), ("--waiting-bytes", "500")])
    def test_more_requests_than_there_is_room_for_are_503_and_take_no_memory(self, project: Path, most: tuple[str, str]) -> None:
        with in_thread(project, *most, "--linger-ms", "300") as (client, _), ThreadPoolExecutor(8) as pool:
            client.sign_in()
            replies = list(pool.map(lambda number: client("/events", event(number)), range(1, 9)))
            refused = [reply for reply in replies if reply.status == 503]
            assert {reply.status for reply in replies} == {200, 503}
            assert all(reply.headers["retry-after"] == "1" for reply in refused)
            assert client.metric("waiting_requests") == 0
        assert len(ids(project)) == 8 - len(refused)

    def test_two_receivers_of_one_name_lose_nothing(self, project: Path) -> None:
        with in_thread(project) as (one, _), in_thread(project) as (two, _), ThreadPoolExecutor(4) as pool:
            two.token = (one.sign_in() and one.token) or ""
            posted = pool.map(lambda number: (one, two)[number % 2]("/events", event(number)).status, range(1, 61))
            assert set(posted) == {200}
        assert ids(project) == list(range(1, 61))

    @pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.slow)])
    def test_a_receiver_killed_while_it_is_posted_to_loses_nothing_that_it_answered(self, project: Path, kills: int) -> None:
        sent, answered, port = list(range(1, 30 * kills + 31)), [], ""
        for kill_after in [25] * kills + [1 << 30]:
            with in_process(project.parent, "--port", port or "0") as (process, client):
                client.sign_in()
                port = str(client.port)
                with ThreadPoolExecutor(4) as pool:
                    todo = [number for number in sent if number not in answered]
                    for done, number in enumerate(pool.map(lambda n: _posted(client, n), todo)):
                        if number is not None:
                            answered.append(number)
                        if done == kill_after:
                            os.kill(process.pid, signal.SIGKILL)
                process.terminate()
                assert process.wait(timeout=20) == (-signal.SIGKILL if kill_after < 1 << 30 else 0)
        assert sorted(answered) == sent  # the client has sent each until it was answered 200
        assert ids(project) == sent
        assert view(project) == [{"id": number, "v": f"v{number}", "toast": None, "extra": None} for number in sent]


def _posted(client: Client, number: int) -> int | None:
    """The number, once it was answered 200; None where the receiver is gone."""
    try:
        return number if client("/events", event(number)).status == 200 else None
    except (OSError, HTTPException):  # the latter where it died between an answer's head and its body
        return None


def test_a_changed_schema_counts_from_the_next_event_on(project: Path, client: Client) -> None:
    assert client("/events", event(1, later="x")).status == 202
    schema = project.parent / "schema.sql"
    before = schema.read_text()
    schema.write_text(before + "alter table public.t_full add column;\n")
    assert client("/events", event(2)).status == 200, "a file that cannot be read changes nothing"
    schema.write_text(before + "alter table public.t_full add column later text;\n")
    assert client("/events", event(3, later="y")).status == 200
    assert main(["replay", FULL, "--project", str(project)]) == 0
    assert {row["id"]: row["later"] for row in view(project)} == {1: "x", 2: None, 3: "y"}


def test_a_receiver_that_stops_answers_what_was_posted(project: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with in_thread(project, "--linger-ms", "300") as (client, _):
            client.sign_in()
            answer = pool.submit(client, "/events", event(1))
            wait_for(lambda: client.metric("waiting_requests") == 1)
        assert answer.result(timeout=20).status == 200
    assert ids(project) == [1]


def test_tail_prints_facts_as_they_land(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with in_thread(project) as (client, _):
        client.sign_in()
        client("/events", event(1))
        client("/events", event(2, toast=None))
    assert main(["tail", FULL, "--from-start", "--once", "--project", str(project)]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["key"], first["cells"]["v"]["value"]) == ({"id": 1}, "v1")
    assert first["landed_at"] < second["landed_at"]
    assert main(["tail", FULL, "--once", "--project", str(project)]) == 0
    assert capsys.readouterr().out == ""
