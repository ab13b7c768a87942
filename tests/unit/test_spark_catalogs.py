"""What catalogs answer, and what is said and done then."""

from __future__ import annotations

from typing import Any

import pytest
from cdc_views_spark import catalogs
from pyspark.errors import PySparkException

from cdc_views.engines.catalogs import NoViewsError
from cdc_views.errors import UsageError
from cdc_views.model.catalog_names import CatalogName

VIEW = CatalogName("main", "shop", "or`ders")


class Session:
    """A session whose catalog answers the first statement with an error."""

    def __init__(self, error: str) -> None:
        self.errors, self.ran = [error], list[str]()

    def sql(self, statement: str) -> Any:
        self.ran.append(statement)
        if self.errors:
            raise PySparkException(self.errors.pop())


def test_a_view_that_a_catalog_does_not_replace_is_dropped_first() -> None:
    session: Any = Session("Replacing a view is not supported yet")
    catalogs.create_view(session, VIEW, "CREATE OR REPLACE VIEW …")
    assert session.ran == ["CREATE OR REPLACE VIEW …", "DROP VIEW `main`.`shop`.`or``ders`", "CREATE OR REPLACE VIEW …"]


@pytest.mark.parametrize(
    "said",
    [
        "[UNSUPPORTED_FEATURE.CATALOG_OPERATION] Catalog `main` does not support views.",
        "[MISSING_CATALOG_ABILITY] Catalog main does not support views",
        "java.lang.ClassCastException: class a.B cannot be cast to class org.apache.spark.sql.connector.catalog.ViewCatalog",
    ],
)
def test_a_catalog_without_views_is_told_apart(said: str) -> None:
    session: Any = Session(said)
    with pytest.raises(NoViewsError, match="catalog main takes no views"):
        catalogs.create_view(session, VIEW, "CREATE OR REPLACE VIEW …")
    assert len(session.ran) == 1


def test_what_else_a_catalog_says_of_a_view_is_told() -> None:
    session: Any = Session("[PERMISSION_DENIED] You may not\nin this schema")
    with pytest.raises(UsageError, match=r"catalog main does not create the view: \[PERMISSION_DENIED\] You may not$"):
        catalogs.create_view(session, VIEW, "CREATE OR REPLACE VIEW …")


@pytest.mark.parametrize(
    ("found", "location"),
    [
        ("file:/lake/a%20b/1", "/lake/a b/1"),
        ("file:///lake/x/", "/lake/x"),
        ("s3a://lake/x/", "s3://lake/x"),
        ("s3://lake/x", "s3://lake/x"),
    ],
)
def test_a_place_may_be_spelled_in_several_ways(found: str, location: str) -> None:
    assert catalogs._is_at(found, location)
    assert not catalogs._is_at(found, f"{location}1")
    assert catalogs._is_below(found, location.rpartition("/")[0])
    assert not catalogs._is_below(found, location)
    assert not catalogs._is_below(found, f"{location.rpartition('/')[0]}/other")
