-- Servers that agents have added from the operator's list.
CREATE TABLE dynamic_servers (
  server      TEXT COLLATE "C" PRIMARY KEY NOT NULL, -- key of the server, as in the configuration
  tenant      TEXT COLLATE "C" NOT NULL, -- who owns it,
  principal   BYTEA NOT NULL, -- encoded by the gate
  entry       TEXT COLLATE "C" NOT NULL, -- of the operator's list
  arguments   BYTEA NOT NULL, -- JSON
  promoted    BOOLEAN NOT NULL, -- an operator made it everyone's
  actor       TEXT COLLATE "C" NOT NULL, -- who made the last change
  reason      TEXT COLLATE "C" NOT NULL,
  created_at  BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  changed_at  BIGINT NOT NULL -- the same
);

CREATE INDEX dynamic_servers_owner ON dynamic_servers (tenant, principal);
