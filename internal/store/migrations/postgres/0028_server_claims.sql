-- At which gateway a server runs that must not run twice. A claim holds as long as the lease of
-- its gateway.
CREATE TABLE server_claims (
  server TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  member TEXT NOT NULL
);
