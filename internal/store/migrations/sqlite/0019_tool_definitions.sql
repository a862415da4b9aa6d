-- The definitions that were accepted of each capability.
CREATE TABLE tool_definitions (
  capability_id  TEXT NOT NULL,
  hash           TEXT NOT NULL,
  definition     BLOB NOT NULL, -- JSON
  accepted_at    INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  actor          TEXT NOT NULL, -- who accepted it first
  reason         TEXT NOT NULL,
  PRIMARY KEY (capability_id, hash)
) WITHOUT ROWID;

INSERT INTO tool_definitions (capability_id, hash, definition, accepted_at, actor, reason)
  SELECT capability_id, accepted_hash, definition, changed_at, actor, reason FROM tool_catalog
  WHERE accepted_hash <> '' AND accepted_hash = definition_hash AND definition IS NOT NULL;
