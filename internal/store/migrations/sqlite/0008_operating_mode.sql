-- Operating modes, the last of which is in force.
CREATE TABLE operating_mode (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  mode   TEXT NOT NULL,
  actor  TEXT NOT NULL,
  reason TEXT NOT NULL,
  at     INTEGER NOT NULL -- nanoseconds since 1970, UTC
);
