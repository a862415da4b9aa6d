-- What was used of budgets. An amount counts from the beginning of its window
-- to the end; a counter is a budget, what it measures, and an owner.
CREATE TABLE budget_window (
  budget  TEXT NOT NULL,
  measure TEXT NOT NULL,
  owner   TEXT NOT NULL,
  starts  INTEGER NOT NULL, -- milliseconds since 1970, UTC
  ends    INTEGER NOT NULL, -- likewise
  used    INTEGER NOT NULL,
  PRIMARY KEY (budget, measure, owner, starts, ends)
) WITHOUT ROWID;

-- Rounds of calls that were charged, so that none is charged twice, and what was
-- taken for them, in the order of their charges.
CREATE TABLE budget_bill (
  call    TEXT NOT NULL,
  round   INTEGER NOT NULL,
  expires INTEGER NOT NULL, -- milliseconds since 1970, UTC; after it nobody asks
  taken   TEXT NOT NULL,    -- numbers with commas between them
  settled INTEGER NOT NULL CHECK (settled IN (0, 1)),
  PRIMARY KEY (call, round)
) WITHOUT ROWID;

CREATE INDEX budget_bill_expires ON budget_bill (expires);
