-- Vectors of texts by which tools are found, as an embedding model made them.
CREATE TABLE vector (
  space   TEXT COLLATE "C" NOT NULL, -- hash of what made the vector: the endpoint and its model
  text    TEXT COLLATE "C" NOT NULL, -- hash of the text
  body    BYTEA NOT NULL, -- written and read by the owner alone
  used_at BIGINT NOT NULL, -- nanoseconds since 1970, UTC; to the day
  PRIMARY KEY (space, text)
);

CREATE INDEX vector_used_at ON vector (used_at);
