-- When searches of a tenant were forgotten, so that nothing from before comes back, and which
-- change made a model.

CREATE TABLE search_forgotten (
  tenant BYTEA NOT NULL PRIMARY KEY,
  at     BIGINT NOT NULL -- nanoseconds since 1970, UTC
);

ALTER TABLE search_models ADD COLUMN version BIGINT NOT NULL DEFAULT 0; -- the generation of "learning" with it
