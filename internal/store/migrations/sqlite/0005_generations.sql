-- How often each topic has changed: who has seen a generation has seen all
-- that was committed with it.
CREATE TABLE generation (
  topic      TEXT PRIMARY KEY NOT NULL,
  generation INTEGER NOT NULL
) WITHOUT ROWID;
