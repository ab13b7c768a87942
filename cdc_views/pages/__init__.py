"""What pages tell of tables, and the pages: facts by the operations of the command line, printed by one set of templates."""
