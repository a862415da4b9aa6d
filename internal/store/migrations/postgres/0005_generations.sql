-- How often each topic has changed: who has seen a generation has seen all
-- that was committed with it.
CREATE TABLE generation (
  topic      TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  generation BIGINT NOT NULL
);
