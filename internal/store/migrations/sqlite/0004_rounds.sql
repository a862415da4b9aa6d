-- Rounds of calls that were used: the state that a client carries from one to
-- the next is good for one use, at one of all gateways that share the store.
CREATE TABLE round (
  call    TEXT NOT NULL,
  round   INTEGER NOT NULL,
  expires INTEGER NOT NULL, -- nanoseconds since 1970, UTC; after it the state is worth nothing
  PRIMARY KEY (call, round)
) WITHOUT ROWID;

CREATE INDEX round_expires ON round (expires);
