"""The base class of all parts of a project file, in any package."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(strict=True, min_length=1)]  # a text that is not empty


class ConfigPart(BaseModel):
    """Unknown keys are refused, nothing changes after loading, no silent casts."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
