-- Gateways that share this database and pass requests on to one another. A row counts as
-- long as its lease, by the clock of the database.
CREATE TABLE members (
  id         TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  address    TEXT COLLATE "C" NOT NULL, -- host:port, where the others reach it
  version    TEXT COLLATE "C" NOT NULL, -- of the program
  wire       BIGINT NOT NULL, -- version of what they say to one another
  draining   BIGINT NOT NULL, -- 1 once it ends
  sessions   BIGINT NOT NULL, -- open legacy sessions, at the last renewal
  calls      BIGINT NOT NULL, -- in flight, at the last renewal
  started_at BIGINT NOT NULL, -- milliseconds since 1970, UTC
  lease      BIGINT NOT NULL -- the same: when the gateway counts as dead
);
