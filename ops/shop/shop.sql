CREATE TABLE public.orders (id int PRIMARY KEY, state text NOT NULL, cents bigint, changed timestamptz);
