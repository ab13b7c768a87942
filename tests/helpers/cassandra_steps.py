"""What happens to a cluster and its agents under load: kills, DDL of every kind, CDC off and on, TRUNCATE.

Each step that an agent cannot follow by itself is loud, and over once its remedy was done; then the next comparison is equal.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from helpers.cassandra_trial import Trial
from helpers.cassandra_workload import TABLES, create_again

Step = Callable[[Trial, random.Random], None]


def kill_node(trial: Trial, chance: random.Random) -> None:
    index = chance.randrange(len(trial.cluster.nodes))
    trial.cluster.kill(index)
    time.sleep(chance.uniform(0.2, 2))
    trial.cluster.start(index)


def kill_agents(trial: Trial, chance: random.Random) -> None:
    for _ in range(2):
        agent = chance.choice(trial.agents)
        if agent.is_alive:
            agent.kill()
        time.sleep(chance.uniform(0, 1))
        agent.start()
        time.sleep(chance.uniform(0, 3))
    trial.start()
    for agent in trial.agents:
        agent.wait_until_said("following", within=120)


def kill_node_and_agents(trial: Trial, chance: random.Random) -> None:
    agent = trial.agents[index := chance.randrange(len(trial.agents))]
    trial.cluster.kill(index)
    agent.kill()
    trial.cluster.start(index)
    trial.start()
    for other in trial.agents:
        other.wait_until_said("following", within=120)


def add_and_drop_columns(trial: Trial, chance: random.Random) -> None:
    """A column comes, goes and comes again, with other values."""
    for change in ("ADD extra int", "DROP extra", "ADD extra int", "DROP extra"):
        for load in trial.loads:
            load.forget("extra")
        trial.cql(f"ALTER TABLE {{ks}}.wide {change}")
        if change.startswith("ADD"):
            for load in trial.loads:
                load.added["extra"] = lambda: str(chance.randrange(100))
        time.sleep(chance.uniform(0.5, 1.5))


def add_a_field(trial: Trial, chance: random.Random) -> None:
    trial.cql(f"ALTER TYPE {{ks}}.spot ADD f{trial.marks} int")
    time.sleep(chance.uniform(0, 1))
    trial.cql(f"UPDATE {{ks}}.wide SET u.f{trial.marks} = 5, v = 'f' WHERE pk = 2 AND ck1 = 1 AND ck2 = 'a'")


def rename_a_field(trial: Trial, chance: random.Random) -> None:
    """`wide` is set aside, the others go on; the remedy is what the agents say."""
    former, field = trial.loads[0].field, f"label{trial.marks}"
    trial.cql(f"ALTER TYPE {{ks}}.spot RENAME {former} TO {field}")
    for load in trial.loads:
        load.field = field
    trial.is_loud("of user type spot is")
    if chance.random() < 0.5:
        kill_agents(trial, chance)
        trial.is_loud("of user type spot is")
    trial.land("simple", "pairs")
    with (trial.folder / "schema.cql").open("a") as schema:
        schema.write(f"ALTER TYPE {trial.keyspace}.spot RENAME {former} TO {field};\n")


def other_tables_and_types(trial: Trial, chance: random.Random) -> None:
    """DDL of what no project has: nobody says anything of it."""
    name = f"{{ks}}.other{trial.marks}"
    trial.cql(f"CREATE TYPE {name}_type (x int)")
    trial.cql(f"CREATE TABLE {name} (k int PRIMARY KEY, v text, u {name}_type) WITH cdc = true")
    for k in range(50):
        trial.cql(f"INSERT INTO {name} (k, v) VALUES ({k}, 'v')")
    time.sleep(chance.uniform(0, 1.5))
    trial.cql(f"ALTER TABLE {name} DROP v", f"DROP TABLE {name}", f"DROP TYPE {name}_type")


def create_and_drop_an_index(trial: Trial, chance: random.Random) -> None:
    """No column changes, so CDC may have been off: the snapshot is taken again."""
    with trial.adding_only():
        trial.cql("CREATE INDEX by_a ON {ks}.simple (a)")
        time.sleep(chance.uniform(0, 2))
        trial.cql("DROP INDEX {ks}.by_a")
        trial.land()
        trial.is_well()


def alter_settings(trial: Trial, chance: random.Random) -> None:
    with trial.adding_only():
        trial.cql(f"ALTER TABLE {{ks}}.{chance.choice(TABLES)} WITH comment = 'c{trial.marks}' AND gc_grace_seconds = 864001")
        trial.cql(_keyspace(trial, is_durable=True))
        trial.land()
        trial.is_well()


def cdc_off_and_on(trial: Trial, chance: random.Random) -> None:
    table = chance.choice(TABLES)
    with trial.adding_only():
        trial.cql(f"ALTER TABLE {{ks}}.{table} WITH cdc = false")
        trial.is_loud("has cdc = false")
        time.sleep(chance.uniform(0, 2))
        if chance.random() < 0.5:
            kill_agents(trial, chance)
        trial.cql(f"ALTER TABLE {{ks}}.{table} WITH cdc = true")
        trial.is_loud("altered, and CDC", by=1)
        if chance.random() < 0.5:
            kill_agents(trial, chance)
        trial.land()
        trial.is_well()


def durable_writes_off_and_on(trial: Trial, chance: random.Random) -> None:
    with trial.adding_only():
        trial.cql(_keyspace(trial, is_durable=False))
        trial.is_loud("durable_writes = false")
        time.sleep(chance.uniform(0, 2))
        trial.cql(_keyspace(trial, is_durable=True))
        trial.is_loud("altered, and CDC", by=1)
        trial.land()
        trial.is_well()


def _keyspace(trial: Trial, *, is_durable: bool) -> str:
    made = f"{{'class': 'SimpleStrategy', 'replication_factor': {trial.replicas}}}"
    return f"ALTER KEYSPACE {{ks}} WITH replication = {made} AND durable_writes = {str(is_durable).lower()}"


def truncate(trial: Trial, chance: random.Random) -> None:
    table = chance.choice(TABLES)
    with trial.adding_only():
        trial.cql(f"TRUNCATE {{ks}}.{table}")
        trial.is_loud(f"{table} was truncated")
        for agent in trial.agents:
            assert agent.stop() == 0
        trial.start()
        trial.is_loud(f"{table} was truncated")  # a restart mends nothing
        for agent in trial.agents:
            assert agent.stop() == 0
        trial.new_raw(table)
        trial.start()
        trial.land()
        trial.is_well()


def drop_and_create_a_table(trial: Trial, chance: random.Random) -> None:
    table = chance.choice(("simple", "pairs"))
    trial.cql(f"DROP TABLE {{ks}}.{table}")
    if chance.random() < 0.5:
        trial.is_loud(f"{trial.keyspace}.{table}")
    create_again(trial.session, trial.keyspace, table)
    trial.is_loud(f"{table} was dropped and created again")
    trial.land("wide")
    if chance.random() < 0.5:
        kill_agents(trial, chance)
    trial.new_raw(table)


STEPS: tuple[Step, ...] = (
    kill_node, kill_agents, kill_node_and_agents, add_and_drop_columns, add_a_field, rename_a_field, other_tables_and_types,
    create_and_drop_an_index, alter_settings, cdc_off_and_on, durable_writes_off_and_on, truncate, drop_and_create_a_table,
)  # fmt: skip
