"""A catalog of Spark that takes tables and no views, as others that extend Delta's; compiled by a fetched compiler."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
from cdc_views_spark.ivy import fetched
from cdc_views_spark.java import cache_folder, java_home
from cdc_views_spark.session import delta_jars

CLASS = "tests.TablesOnly"
_ECJ = ("org.eclipse.jdt", "ecj", "3.33.0")
_SOURCE = """package tests;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.catalog.DeltaCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The tables of the session's catalog, under another name. */
public class TablesOnly extends DeltaCatalog {
  private String name;

  @Override
  public String name() {
    return name;
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    super.initialize(name, options);
    this.name = name;
    var session = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
    setDelegateCatalog(session.sessionState().catalogManager().v2SessionCatalog());
  }
}
"""


def classes(folder: Path) -> Path:
    """Compile the catalog into a folder, for the class path of a session."""
    source = folder / "tests" / "TablesOnly.java"
    source.parent.mkdir(parents=True)
    source.write_text(_SOURCE)
    ecj = next(fetched(_ECJ, cache_folder() / f"ecj-{_ECJ[2]}", finish=lambda _: None).glob("ecj-*.jar"))
    spark = Path(str(pyspark.__file__)).parent / "jars"
    named = (jar for name in ("spark", "scala-library", "slf4j-api") for jar in spark.glob(f"{name}*.jar"))
    known = os.pathsep.join(map(str, [*named, *delta_jars()]))
    command = [str(java_home(cache_folder()) / "bin" / "java"), "-cp", str(ecj), "org.eclipse.jdt.internal.compiler.batch.Main"]
    command += ["--release", "17", "-proc:none", "-cp", known, "-d", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder
