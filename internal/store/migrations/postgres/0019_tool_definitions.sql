-- The definitions that were accepted of each capability.
CREATE TABLE tool_definitions (
  capability_id  TEXT COLLATE "C" NOT NULL,
  hash           TEXT COLLATE "C" NOT NULL,
  definition     BYTEA NOT NULL, -- JSON
  accepted_at    BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  actor          TEXT COLLATE "C" NOT NULL, -- who accepted it first
  reason         TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (capability_id, hash)
);

INSERT INTO tool_definitions (capability_id, hash, definition, accepted_at, actor, reason)
  SELECT capability_id, accepted_hash, definition, changed_at, actor, reason FROM tool_catalog
  WHERE accepted_hash <> '' AND accepted_hash = definition_hash AND definition IS NOT NULL;
