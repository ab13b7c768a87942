"""Data contracts in the Open Data Contract Standard (ODCS): written for a project, compared with it, made into data tests.

Source: Open Data Contract Standard 3.2.0 (Bitol, Linux Foundation), https://bitol-io.github.io/open-data-contract-standard.
"""

from __future__ import annotations

from cdc_views.export.contracts.comparing import ContractDifference, compare
from cdc_views.export.contracts.document import Contract, read_contract
from cdc_views.export.contracts.rules import Rules, rules_for
from cdc_views.export.contracts.writing import contract_of, contract_yaml

__all__ = ["Contract", "ContractDifference", "Rules", "compare", "contract_of", "contract_yaml", "read_contract", "rules_for"]
