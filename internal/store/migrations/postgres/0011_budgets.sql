-- What was used of budgets. An amount counts from the beginning of its window
-- to the end; a counter is a budget, what it measures, and an owner.
CREATE TABLE budget_window (
  budget  TEXT COLLATE "C" NOT NULL,
  measure TEXT COLLATE "C" NOT NULL,
  owner   BYTEA NOT NULL,
  starts  BIGINT NOT NULL, -- milliseconds since 1970, UTC
  ends    BIGINT NOT NULL, -- likewise
  used    BIGINT NOT NULL,
  PRIMARY KEY (budget, measure, owner, starts, ends)
);

-- Rounds of calls that were charged, so that none is charged twice, and what was
-- taken for them, in the order of their charges.
CREATE TABLE budget_bill (
  call    TEXT COLLATE "C" NOT NULL,
  round   BIGINT NOT NULL,
  expires BIGINT NOT NULL, -- milliseconds since 1970, UTC; after it nobody asks
  taken   BIGINT[] NOT NULL,
  settled BOOLEAN NOT NULL,
  PRIMARY KEY (call, round)
);

CREATE INDEX budget_bill_expires ON budget_bill (expires);

-- What a charge takes of a counter of which so much is used; 0 is nothing.
CREATE FUNCTION toolgate_budget_fit(used BIGINT, amount BIGINT, fewest BIGINT, most BIGINT) RETURNS BIGINT
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN most < 0 OR used <= most - amount THEN amount
    WHEN fewest > 0 AND most - used >= fewest THEN most - used
    ELSE 0
  END
$$;

-- What counts for a charge: the sum, the first beginning and the first end.
CREATE FUNCTION toolgate_budget_sum(c JSONB, at BIGINT, OUT used BIGINT, OUT starts BIGINT, OUT ends BIGINT)
LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(w.used), 0)::BIGINT,
         coalesce(min(w.starts), (c->>'s')::BIGINT),
         coalesce(min(w.ends), (c->>'e')::BIGINT)
  FROM budget_window w
  WHERE w.budget = c->>'b' AND w.measure = c->>'m' AND w.owner = decode(c->>'k', 'base64')
    AND w.starts < (c->>'e')::BIGINT AND w.ends > $2 AND w.used > 0
$$;

-- Adds to the window of a charge.
CREATE FUNCTION toolgate_budget_add(c JSONB, amount BIGINT) RETURNS VOID
LANGUAGE sql VOLATILE AS $$
  INSERT INTO budget_window AS w (budget, measure, owner, starts, ends, used)
  VALUES (c->>'b', c->>'m', decode(c->>'k', 'base64'), (c->>'s')::BIGINT, (c->>'e')::BIGINT, amount)
  ON CONFLICT (budget, measure, owner, starts, ends) DO UPDATE SET used = w.used + excluded.used
$$;

-- Charges and settles bills, one after the other, and returns the answer to each.
-- It is one statement, and a transaction of its own. Who uses a counter holds its
-- lock to the end of that; the locks are taken in the order of their numbers, so
-- that two gateways never wait for each other. What is read after a lock must be
-- what the last holder has written, which holds in READ COMMITTED alone.
CREATE FUNCTION toolgate_budget(bills JSONB) RETURNS JSONB
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  bill    JSONB;
  c       JSONB;
  known   RECORD;
  balance RECORD;
  lock    BIGINT;
  amounts BIGINT[];
  got     BIGINT;
  refusal JSONB;
  answers JSONB := '[]';
  lines   JSONB;
  i       INT;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'budgets need READ COMMITTED transactions' USING ERRCODE = '25001';
  END IF;
  FOR lock IN
    SELECT DISTINCT hashtextextended(concat_ws(E'\n', current_schema(), x->>'b', x->>'m', x->>'k'), 1952539508) AS h
    FROM jsonb_array_elements(bills) AS b, jsonb_array_elements(b->'charges') AS x
    ORDER BY h
  LOOP
    PERFORM pg_advisory_xact_lock(lock);
  END LOOP;

  FOR bill IN SELECT * FROM jsonb_array_elements(bills) LOOP
    SELECT b.taken, b.settled INTO known FROM budget_bill b
    WHERE b.call = bill->>'call' AND b.round = (bill->>'round')::BIGINT;

    IF bill ? 'settle' THEN
      IF FOUND AND NOT known.settled THEN
        UPDATE budget_bill b SET settled = TRUE
        WHERE b.call = bill->>'call' AND b.round = (bill->>'round')::BIGINT;
        FOR i IN 1 .. cardinality(known.taken) LOOP
          got := coalesce((bill->'settle'->>(i - 1))::BIGINT, 0);
          got := known.taken[i] - least(greatest(got, 0), known.taken[i]);
          IF got > 0 THEN
            PERFORM toolgate_budget_add(bill->'charges'->(i - 1), -got);
          END IF;
        END LOOP;
      END IF;
      answers := answers || '[{}]'::JSONB;
      CONTINUE;
    END IF;

    amounts := '{}';
    refusal := NULL;
    IF FOUND THEN
      amounts := known.taken;
    ELSE
      i := 0;
      FOR c IN SELECT * FROM jsonb_array_elements(bill->'charges') LOOP
        SELECT * INTO balance FROM toolgate_budget_sum(c, (bill->>'at')::BIGINT);
        got := toolgate_budget_fit(balance.used, (c->>'a')::BIGINT, (c->>'l')::BIGINT, (c->>'n')::BIGINT);
        IF got = 0 THEN
          refusal := jsonb_build_object('refused', i, 'u', balance.used, 'r', balance.ends);
          EXIT;
        END IF;
        amounts := amounts || got;
        i := i + 1;
      END LOOP;
      IF refusal IS NOT NULL THEN
        answers := answers || refusal;
        CONTINUE;
      END IF;
      INSERT INTO budget_bill (call, round, expires, taken, settled)
      VALUES (bill->>'call', (bill->>'round')::BIGINT, (bill->>'until')::BIGINT, amounts, FALSE);
      i := 0;
      FOR c IN SELECT * FROM jsonb_array_elements(bill->'charges') LOOP
        i := i + 1;
        PERFORM toolgate_budget_add(c, amounts[i]);
      END LOOP;
    END IF;

    lines := '[]';
    i := 0;
    FOR c IN SELECT * FROM jsonb_array_elements(bill->'charges') LOOP
      i := i + 1;
      SELECT * INTO balance FROM toolgate_budget_sum(c, (bill->>'at')::BIGINT);
      lines := lines || jsonb_build_object('t', amounts[i], 'u', balance.used, 's', balance.starts, 'r', balance.ends);
    END LOOP;
    answers := answers || jsonb_build_object('granted', lines);
  END LOOP;
  RETURN answers;
END
$$;
