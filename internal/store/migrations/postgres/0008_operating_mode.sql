-- Operating modes, the last of which is in force.
CREATE TABLE operating_mode (
  seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  mode   TEXT COLLATE "C" NOT NULL,
  actor  TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  at     BIGINT NOT NULL -- nanoseconds since 1970, UTC
);
