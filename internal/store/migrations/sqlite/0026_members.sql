-- Gateways that share this database and pass requests on to one another. A row counts as
-- long as its lease, by the clock of the database.
CREATE TABLE members (
  id         TEXT PRIMARY KEY NOT NULL,
  address    TEXT NOT NULL, -- host:port, where the others reach it
  version    TEXT NOT NULL, -- of the program
  wire       INTEGER NOT NULL, -- version of what they say to one another
  draining   INTEGER NOT NULL, -- 1 once it ends
  sessions   INTEGER NOT NULL, -- open legacy sessions, at the last renewal
  calls      INTEGER NOT NULL, -- in flight, at the last renewal
  started_at INTEGER NOT NULL, -- milliseconds since 1970, UTC
  lease      INTEGER NOT NULL -- the same: when the gateway counts as dead
);
