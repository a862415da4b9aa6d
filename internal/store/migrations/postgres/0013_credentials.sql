-- What the gateway shows servers to authenticate, one row for each principal, or
-- for all together, and each authorization server, resource and scopes. The body
-- is sealed with the gateway's keys.
CREATE TABLE credential (
  id          TEXT COLLATE "C" PRIMARY KEY NOT NULL, -- SHA-256 of the next five
  server      TEXT COLLATE "C" NOT NULL, -- key of the server, as in the configuration
  principal   BYTEA NOT NULL, -- encoded by the gate; empty for the one that all share
  issuer      TEXT COLLATE "C" NOT NULL,
  resource    TEXT COLLATE "C" NOT NULL,
  scopes      TEXT COLLATE "C" NOT NULL, -- asked for, sorted
  body        BYTEA NOT NULL,
  version     BIGINT NOT NULL, -- one more with every renewal
  lease       TEXT COLLATE "C" NOT NULL, -- who renews it,
  lease_until BIGINT NOT NULL, -- until then: nanoseconds since 1970, UTC
  saved_at    BIGINT NOT NULL -- the same
);

CREATE INDEX credential_of ON credential (server, principal);

-- Journeys of people to an authorization server, until they come back: each is
-- taken once. The body is sealed.
CREATE TABLE login (
  id      TEXT COLLATE "C" PRIMARY KEY NOT NULL, -- SHA-256 of the state that they carry
  body    BYTEA NOT NULL,
  expires BIGINT NOT NULL -- nanoseconds since 1970, UTC
);

CREATE INDEX login_expires ON login (expires);

-- The gateway as authorization servers know it. The body is sealed.
CREATE TABLE oauth_client (
  issuer   TEXT COLLATE "C" NOT NULL,
  redirect TEXT COLLATE "C" NOT NULL, -- where people come back to
  body     BYTEA NOT NULL,
  saved_at BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (issuer, redirect)
);
