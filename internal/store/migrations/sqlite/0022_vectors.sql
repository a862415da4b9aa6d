-- Vectors of texts by which tools are found, as an embedding model made them.
CREATE TABLE vector (
  space   TEXT NOT NULL, -- hash of what made the vector: the endpoint and its model
  text    TEXT NOT NULL, -- hash of the text
  body    BLOB NOT NULL, -- written and read by the owner alone
  used_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC; to the day
  PRIMARY KEY (space, text)
) WITHOUT ROWID;

CREATE INDEX vector_used_at ON vector (used_at);
