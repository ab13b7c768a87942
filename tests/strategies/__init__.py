"""What semantic tests are made of: values of every type, schemas, histories, and how an engine's rows are compared."""
