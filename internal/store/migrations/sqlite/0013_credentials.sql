-- What the gateway shows servers to authenticate, one row for each principal, or
-- for all together, and each authorization server, resource and scopes. The body
-- is sealed with the gateway's keys.
CREATE TABLE credential (
  id          TEXT PRIMARY KEY NOT NULL, -- SHA-256 of the next five
  server      TEXT NOT NULL, -- key of the server, as in the configuration
  principal   BLOB NOT NULL, -- encoded by the gate; empty for the one that all share
  issuer      TEXT NOT NULL,
  resource    TEXT NOT NULL,
  scopes      TEXT NOT NULL, -- asked for, sorted
  body        BLOB NOT NULL,
  version     INTEGER NOT NULL, -- one more with every renewal
  lease       TEXT NOT NULL, -- who renews it,
  lease_until INTEGER NOT NULL, -- until then: nanoseconds since 1970, UTC
  saved_at    INTEGER NOT NULL -- the same
) WITHOUT ROWID;

CREATE INDEX credential_of ON credential (server, principal);

-- Journeys of people to an authorization server, until they come back: each is
-- taken once. The body is sealed.
CREATE TABLE login (
  id      TEXT PRIMARY KEY NOT NULL, -- SHA-256 of the state that they carry
  body    BLOB NOT NULL,
  expires INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;

CREATE INDEX login_expires ON login (expires);

-- The gateway as authorization servers know it. The body is sealed.
CREATE TABLE oauth_client (
  issuer   TEXT NOT NULL,
  redirect TEXT NOT NULL, -- where people come back to
  body     BLOB NOT NULL,
  saved_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (issuer, redirect)
) WITHOUT ROWID;
