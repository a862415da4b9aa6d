-- Servers that agents have added from the operator's list.
CREATE TABLE dynamic_servers (
  server      TEXT PRIMARY KEY NOT NULL, -- key of the server, as in the configuration
  tenant      TEXT NOT NULL, -- who owns it,
  principal   TEXT NOT NULL, -- encoded by the gate
  entry       TEXT NOT NULL, -- of the operator's list
  arguments   BLOB NOT NULL, -- JSON
  promoted    INTEGER NOT NULL CHECK (promoted IN (0, 1)), -- an operator made it everyone's
  actor       TEXT NOT NULL, -- who made the last change
  reason      TEXT NOT NULL,
  created_at  INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  changed_at  INTEGER NOT NULL -- the same
) WITHOUT ROWID;

CREATE INDEX dynamic_servers_owner ON dynamic_servers (tenant, principal);
