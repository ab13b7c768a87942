"""What Spark's own parser finds in a user's statement: nothing runs that is not known to read the project's tables alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.model.user_statements import EXPECTED, TABLE_FUNCTIONS

_CATALYST = "org.apache.spark.sql.catalyst."
_NODES = (
    "Project Filter Aggregate Join Sort GlobalLimit LocalLimit Offset Tail Distinct Union Except Intersect SubqueryAlias "
    "UnresolvedSubqueryColumnAliases OneRowRelation LateralJoin Generate Pivot Unpivot Expand GroupingSets WithWindowDefinition "
    "Window Sample RepartitionByExpression Repartition RebalancePartitions UnresolvedHint UnresolvedWith UnresolvedHaving "
    "UnresolvedInlineTable UnresolvedTVFAliases UnresolvedOrdinal UnresolvedRelation UnresolvedTableValuedFunction "
    "UnresolvedAttribute UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedRegex UnresolvedAlias UnresolvedFunction "
    "UnresolvedGenerator UnresolvedExtractValue UnresolvedSubscript UnresolvedDeserializer UnresolvedNamedLambdaVariable "
    "MultiAlias UnpivotArgument AliasedUnpivotArgument UnresolvedWindowExpression "
    "SampleMethod$Bernoulli SampleMethod$System JoinHint LocalRelation"
)
_PLANS = frozenset(_NODES.split())
"""Nodes of plans and of analysis that a query may be made of; commands, scripts, `IDENTIFIER` and travel in time are none."""
_LEAVES = frozenset({"JoinHint", "LocalRelation"})
"""Names of hints, and literals."""
_VALUES = (
    "org.apache.spark.sql.types.", "org.apache.spark.unsafe.", f"{_CATALYST}plans.", f"{_CATALYST}util.", f"{_CATALYST}trees.",
    f"{_CATALYST}AliasIdentifier", f"{_CATALYST}FunctionIdentifier", "org.apache.spark.sql.util.CaseInsensitiveStringMap",
    "java.",
)  # fmt: skip
"""What holds no nodes."""
_FUNCTIONS = (
    "reflect try_reflect java_method getvariable from_protobuf to_protobuf from_xml schema_of_xml input_file_name "
    "input_file_block_start input_file_block_length from_avro to_avro schema_of_avro"
)
_OUTSIDE = frozenset(_FUNCTIONS.split())
"""Functions of Spark's own that run code, read files by an option, or tell where files are."""


def check(session: SparkSession, text: str, *, views: frozenset[str]) -> None:
    """Raise `UsageError` unless a statement is one query that reads nothing but `views`, by functions of Spark's own."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:
        told = "a session of Spark Connect parses statements where they cannot be checked"
        raise UnsupportedError(told, remedy="open a session of this process, or query the views of `cdc-views apply`")
    plan = session._jsparkSession.sessionState().sqlParser().parseQuery(text)
    _Checked(_own_functions(session)).walk(plan, views)


@lru_cache(maxsize=4)
def _own_functions(session: SparkSession) -> frozenset[str]:
    """The functions that Spark itself has, whatever the session added."""
    jvm: Any = session._jvm
    registry = getattr(jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$").__getattr__("MODULE$")
    return frozenset(one.funcName().casefold() for one in _items(registry.builtin().listFunction())) - _OUTSIDE


class _Checked:
    """Walks a plan as the parser made it: each node is known, or refused."""

    def __init__(self, functions: frozenset[str]) -> None:
        self._functions = functions

    def walk(self, node: JavaObject, known: frozenset[str]) -> None:
        """Raise `UsageError` for what is not known; `known` are the names of relations here."""
        if not hasattr(node, "getClass"):  # a text, number or null
            return
        kind = str(node.getClass().getName())
        name = kind.rpartition(".")[2].removesuffix("$")
        if kind.startswith("scala."):
            for one in _parts(node, kind):
                self.walk(one, known)
        elif kind.startswith((f"{_CATALYST}plans.logical.", f"{_CATALYST}analysis.", f"{_CATALYST}expressions.")):
            if not kind.startswith(f"{_CATALYST}expressions.") and name not in _PLANS:
                raise UsageError(f"the query holds {name}; {EXPECTED}")
            self._check(name, node, known)
            if name == "UnresolvedWith":
                self._walk_with(node, known)
            elif name not in _LEAVES:
                for one in _members(node):
                    self.walk(one, known)
        elif not kind.startswith(_VALUES):
            raise UsageError(f"the query holds {name}; {EXPECTED}")

    def _walk_with(self, node: JavaObject, known: frozenset[str]) -> None:
        """A name of WITH is known to the parts that follow, and to itself if it may recur."""
        for part in _items(node.cteRelations()):
            name, query = str(part._1()).casefold(), part._2()
            self.walk(query, known | {name} if node.allowRecursion() else known)
            known |= {name}
        self.walk(node.child(), known)

    def _check(self, name: str, node: JavaObject, known: frozenset[str]) -> None:
        if name == "UnresolvedRelation":
            parts = [str(one) for one in _items(node.multipartIdentifier())]
            if len(parts) != 1 or parts[0].casefold() not in known or not node.options().isEmpty():
                raise UsageError(f"the query reads {'.'.join(parts)}; {EXPECTED}")
        elif name == "UnresolvedTableValuedFunction":
            called = ".".join(str(one) for one in _items(node.name())).casefold()
            if called not in TABLE_FUNCTIONS:
                raise UsageError(f"the query reads from {called}(…); {EXPECTED}")
            self._check_own(called)
        elif name == "UnresolvedFunction":
            self._check_own(".".join(str(one) for one in _items(node.nameParts())).casefold())
        elif name == "UnresolvedGenerator":
            self._check_own(str(node.name().unquotedString()).casefold())

    def _check_own(self, called: str) -> None:
        if called not in self._functions | TABLE_FUNCTIONS:
            raise UsageError(f"the query calls {called}, which is none of Spark's own functions of values; {EXPECTED}")


def _parts(node: JavaObject, kind: str) -> Iterator[Any]:
    """What a collection, an option or a tuple holds."""
    if kind.startswith("scala.collection."):
        return _items(node)
    return _members(node) if kind.startswith(("scala.Some", "scala.Tuple", "scala.util.")) else iter(())


def _items(collection: JavaObject) -> Iterator[Any]:
    items = collection.toIndexedSeq()
    return (items.apply(n) for n in range(items.size()))


def _members(product: JavaObject) -> Iterator[Any]:
    return (product.productElement(n) for n in range(product.productArity()))
