"""`bigquery:` of a project file, and `warehouse:` if the engine is BigQuery."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictBool

from cdc_views.model.config_part import ConfigPart, Name

_PLACE = re.compile(r"(?P<project>[a-z][a-z0-9.:-]*)\.(?P<dataset>\w+)\Z")
_SIZE = re.compile(r"(?P<count>[1-9]\d*) ?(?P<unit>[KMGTP]iB|[KMGTP]B|B)\Z")
SCHEME = "bigquery://"
"""The beginning of a raw table's location in BigQuery; its full name follows."""
_UNITS: dict[str, int] = {"B": 1}
for _power, _letter in enumerate("KMGTP", start=1):
    _UNITS |= {f"{_letter}B": 1000**_power, f"{_letter}iB": 1024**_power}


def bytes_of(size: str) -> int | None:
    """Return the number of bytes of a text such as `10 GiB`; None for `unlimited`.

    >>> bytes_of("10 GiB"), bytes_of("unlimited")
    (10737418240, None)
    """
    if size == "unlimited":
        return None
    found = _SIZE.match(size)
    if found is None:
        raise ValueError("a number of bytes was expected, as in 100GiB, or unlimited")
    return int(found["count"]) * _UNITS[found["unit"]]


def split_place(warehouse: str) -> tuple[str, str]:
    """Return (project, dataset) of `warehouse:`; raises `ValueError` for any other form.

    >>> split_place("my-project.shop")
    ('my-project', 'shop')
    """
    found = _PLACE.match(warehouse)
    if found is None:
        raise ValueError(
            f"warehouse is {warehouse!r}; with engine bigquery a project and the dataset of the views were expected, "
            "as in my-project.shop"
        )
    return found["project"], found["dataset"]


def _size(value: str) -> str:
    bytes_of(value)
    return value


def _text(pattern: str, expected: str) -> AfterValidator:

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(expected)
        return value

    return AfterValidator(check)


def _endpoint(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL was expected, as in http://127.0.0.1:9050")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError("http is for a server of this machine only; use https, or nobody's credentials would be safe")
    if parts.username or parts.password:
        raise ValueError("a URL without user and password was expected; the client finds credentials itself")
    return value


class Granularity(str, Enum):
    """How wide a partition of a raw table is, in landing time."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"


Dataset = Annotated[Name, _text(r"(?a:\w+)", "a dataset's name was expected: letters, digits and `_`")]
Size = Annotated[Name, AfterValidator(_size)]
Span = Annotated[Name, _text(r"\d{1,6}[smhd]", "a whole number and a unit was expected: s, m, h or d, as in 10m")]
Label = Annotated[
    Name,
    _text(r"[a-z][a-z0-9_-]{0,62}", "a label was expected: lowercase letters, digits, `_` and `-`, a letter first, at most 63"),
]
LabelValue = Annotated[
    str,
    Field(strict=True),
    _text(r"[a-z0-9_-]{0,63}", "a label's value was expected: lowercase letters, digits, `_` and `-`, at most 63"),
]


class BigQueryConfig(ConfigPart):
    """How BigQuery is used; credentials are found by the client's own rules, never here."""

    location: Name | None = Field(default=None, description="Where datasets are made and jobs run, as EU; default: BigQuery's.")
    raw_dataset: Dataset | None = Field(default=None, description="Dataset of raw tables; default: the views', then `_raw`.")
    state_dataset: Dataset | None = Field(
        default=None, description="Dataset of state and serving tables; default: the views', then `_state`."
    )
    partition_by: Granularity = Field(default=Granularity.DAY, description="Width of a raw table's partitions, in landing time.")
    maximum_bytes_billed: Size = Field(
        default="100GiB", description="The most that one job may bill, as 10GiB; `unlimited` sends jobs without a limit."
    )
    price_per_tib: Annotated[float, Field(ge=0)] = Field(
        default=6.25, description="Money per TiB that a query reads; on-demand in the US by default."
    )
    storage_price_per_gib: Annotated[float, Field(ge=0)] = Field(
        default=0.02, description="Money per GiB and month of active logical storage."
    )
    currency: Name = Field(default="USD", description="What prices are in; only printed.")
    labels: dict[Label, LabelValue] = Field(
        default_factory=dict, max_length=60, description="Labels of jobs, datasets, tables and views."
    )
    authorize_views: StrictBool = Field(
        default=True, description="Let the views read the raw dataset for those who may only read the views' dataset."
    )
    timeout: Span = Field(default="10m", description="How long a job may take: <int>(s|m|h|d).")
    retry_for: Span = Field(default="2m", description="How long a call that fails for a moment is repeated.")
    overlap: Span = Field(
        default="1h", description="How far behind the newest landing time a run of a state looks for what became visible late."
    )
    buckets: Annotated[int, Field(ge=1, le=4000)] = Field(
        default=64, description="Into how many partitions new state and serving tables are split, by partition key."
    )
    endpoint: Annotated[Name, AfterValidator(_endpoint)] | None = Field(
        default=None, description="URL of another server of this API; http, without credentials, on this machine only."
    )

    @property
    def byte_limit(self) -> int | None:
        """The most bytes that a job may bill; None for no limit."""
        return bytes_of(self.maximum_bytes_billed)


@dataclass(frozen=True, slots=True)
class Datasets:
    """A project's datasets and their Google Cloud project; `project` is empty for the client's own project."""

    project: str
    views: str
    raw: str
    state: str

    def dataset(self, name: str) -> str:
        """Return a dataset's full name."""
        return f"{self.project}.{name}" if self.project else name

    def raw_table(self, name: str) -> str:
        """Return a raw table's full name; `name` may include its dataset, and that its project."""
        parts = name.removeprefix("raw/").split(".")
        if len(parts) == 1:
            return f"{self.dataset(self.raw)}.{parts[0]}"
        return f"{self.dataset(parts[0])}.{parts[1]}" if len(parts) == 2 else ".".join(parts)


def place_of(warehouse: str, config: BigQueryConfig) -> Datasets:
    """Return the places of a project's tables; raises `ValueError` as `split_place` does."""
    project, views = split_place(warehouse)
    return Datasets(project, views, config.raw_dataset or f"{views}_raw", config.state_dataset or f"{views}_state")
