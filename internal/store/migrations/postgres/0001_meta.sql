-- The version of the schema, in its only row.
CREATE TABLE toolgate_schema (
  only_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_row),
  version  BIGINT NOT NULL
);

INSERT INTO toolgate_schema (version) VALUES (0);

-- Small state that does not deserve a table of its own.
CREATE TABLE meta (
  key        TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  value      BYTEA NOT NULL,
  updated_at BIGINT NOT NULL -- nanoseconds since 1970, UTC
);
