-- Tools that agents have registered from the operator's templates.
CREATE TABLE dynamic_tools (
  name                  TEXT PRIMARY KEY NOT NULL, -- with the namespace of its owner
  registered_by_tenant  TEXT NOT NULL, -- who owns it,
  principal             TEXT NOT NULL, -- encoded by the gate
  template              TEXT NOT NULL, -- a declared tool, with its namespace
  body                  BLOB NOT NULL, -- what was registered, sealed
  actor                 TEXT NOT NULL, -- who made the last change
  reason                TEXT NOT NULL,
  created_at            INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  changed_at            INTEGER NOT NULL -- the same
) WITHOUT ROWID;

CREATE INDEX dynamic_tools_owner ON dynamic_tools (registered_by_tenant, principal);
