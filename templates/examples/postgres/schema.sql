-- A shop's database in PostgreSQL.
CREATE TABLE shop.customers (
  id    bigint PRIMARY KEY,
  name  text NOT NULL,
  email text,
  notes text  -- may be long: PostgreSQL then stores it apart, and leaves it out of an update that does not change it
);

CREATE TABLE shop.orders (
  id          bigint PRIMARY KEY,
  customer_id bigint NOT NULL,
  state       text NOT NULL,
  amount      numeric(12, 2) NOT NULL,
  placed_at   timestamptz NOT NULL
);
