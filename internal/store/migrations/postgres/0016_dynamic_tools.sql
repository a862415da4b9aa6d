-- Tools that agents have registered from the operator's templates.
CREATE TABLE dynamic_tools (
  name                  TEXT COLLATE "C" PRIMARY KEY NOT NULL, -- with the namespace of its owner
  registered_by_tenant  TEXT COLLATE "C" NOT NULL, -- who owns it,
  principal             BYTEA NOT NULL, -- encoded by the gate
  template              TEXT COLLATE "C" NOT NULL, -- a declared tool, with its namespace
  body                  BYTEA NOT NULL, -- what was registered, sealed
  actor                 TEXT COLLATE "C" NOT NULL, -- who made the last change
  reason                TEXT COLLATE "C" NOT NULL,
  created_at            BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  changed_at            BIGINT NOT NULL -- the same
);

CREATE INDEX dynamic_tools_owner ON dynamic_tools (registered_by_tenant, principal);
