-- Searches and the tools that were called after them, and what was learned of these.

CREATE TABLE search_pairs (
  id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant BYTEA NOT NULL, -- of the caller
  caller TEXT COLLATE "C" NOT NULL, -- a hash of the principal
  server TEXT COLLATE "C" NOT NULL,
  tool   TEXT COLLATE "C" NOT NULL, -- as exposed
  query  TEXT COLLATE "C" NOT NULL, -- without secrets
  at     BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  place  BIGINT NOT NULL, -- of the tool in the answer, from 1
  shadow BIGINT NOT NULL -- its place with the model that was not in force; 0 for none, negative for not found
);

CREATE INDEX search_pairs_of ON search_pairs (tenant, server, tool, caller, at);

CREATE INDEX search_pairs_at ON search_pairs (at);

CREATE TABLE search_models (
  tenant     BYTEA NOT NULL PRIMARY KEY,
  model      BYTEA NOT NULL,
  trained_at BIGINT NOT NULL -- nanoseconds since 1970, UTC
);
