-- When searches of a tenant were forgotten, so that nothing from before comes back, and which
-- change made a model.

CREATE TABLE search_forgotten (
  tenant TEXT NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;

ALTER TABLE search_models ADD COLUMN version INTEGER NOT NULL DEFAULT 0; -- the generation of "learning" with it
