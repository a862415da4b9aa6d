-- Searches and the tools that were called after them, and what was learned of these.

CREATE TABLE search_pairs (
  id     INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, -- of the caller
  caller TEXT NOT NULL, -- a hash of the principal
  server TEXT NOT NULL,
  tool   TEXT NOT NULL, -- as exposed
  query  TEXT NOT NULL, -- without secrets
  at     INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  place  INTEGER NOT NULL, -- of the tool in the answer, from 1
  shadow INTEGER NOT NULL -- its place with the model that was not in force; 0 for none, negative for not found
);

CREATE INDEX search_pairs_of ON search_pairs (tenant, server, tool, caller, at);

CREATE INDEX search_pairs_at ON search_pairs (at);

CREATE TABLE search_models (
  tenant     TEXT NOT NULL PRIMARY KEY,
  model      BLOB NOT NULL,
  trained_at INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;
