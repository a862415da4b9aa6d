-- Rounds of calls that were used: the state that a client carries from one to
-- the next is good for one use, at one of all gateways that share the store.
CREATE TABLE round (
  call    TEXT COLLATE "C" NOT NULL,
  round   BIGINT NOT NULL,
  expires BIGINT NOT NULL, -- nanoseconds since 1970, UTC; after it the state is worth nothing
  PRIMARY KEY (call, round)
);

CREATE INDEX round_expires ON round (expires);
