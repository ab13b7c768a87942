"""`cdc-views ui`: a local page of tables, rows, reasons, instants, landings, quarantine, tests and proof (docs/how-to/ui.md)."""
