-- Charges bills, one after the other. Of each it takes all charges, or none.
-- KEYS: the epoch and the index of counters; of each kind of charge the windows of
-- its counter (a sorted set "start:end" by end) and the amounts in them; then the
-- bills.
-- ARGV: the epoch and how many kinds of charges there are; of each its start, end,
-- amount, least, limit, how long a window is kept after its end, and the name of
-- its counter in the index; then of each bill a text of numbers: its time, how long
-- it is remembered, and which charges it takes. Times are in milliseconds.
-- Returns "lost", or a line for each bill: "refused CHARGE USED RESET", or "other",
-- when another bill has its key, or "failed WHY", or "charged" and of each charge
-- what was taken and is used, the first start and the first end.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'lost'
end

local kinds = {}
for i = 1, tonumber(ARGV[2]) do
  local first = 7 * i - 5
  kinds[i] = {
    windows = KEYS[1 + 2 * i], amounts = KEYS[2 + 2 * i],
    start = tonumber(ARGV[first + 1]), reset = tonumber(ARGV[first + 2]),
    window = ARGV[first + 1] .. ':' .. ARGV[first + 2],
    amount = tonumber(ARGV[first + 3]), least = tonumber(ARGV[first + 4]), limit = tonumber(ARGV[first + 5]),
    keep = tonumber(ARGV[first + 6]), name = ARGV[first + 7],
  }
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function whole(n)
  return string.format('%.0f', n)
end

-- How often the windows of a counter were changed here, by their key.
local changes = {}

-- What a charge's counter holds: the windows that begin before its own ends, and end
-- after the time. What was found at a time holds until the first of the windows ends, or
-- another kind of charge changes one.
local function balance(kind, at)
  local known = kind.known
  if not known or known.changes ~= changes[kind.windows] or at < known.at or at >= known.reset then
    local used, start, reset = sum(kind.windows, kind.amounts, whole(at), kind.reset)
    if used == 0 then
      start, reset = kind.start, kind.reset
    end
    known = { at = at, used = used, start = start, reset = reset, changes = changes[kind.windows] }
    kind.known = known
  end
  return known
end

-- Adds a kind's own window to those of its counter, forgets windows that have ended long
-- ago, by both clocks, and keeps the counter as long as its own window is kept.
local function tidy(kind, at)
  redis.call('ZADD', kind.windows, whole(kind.reset), kind.window)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', kind.windows, '-inf', whole(math.min(at, now) - kind.keep), 'LIMIT', 0, 16)) do
    redis.call('HDEL', kind.amounts, old)
    redis.call('ZREM', kind.windows, old)
  end
  local expiry = kind.reset - at + kind.keep
  if redis.call('PTTL', kind.windows) < expiry then
    redis.call('PEXPIRE', kind.windows, whole(expiry))
    redis.call('PEXPIRE', kind.amounts, whole(expiry))
    redis.call('ZADD', KEYS[2], whole(now + expiry), kind.name)
  end
  kind.tidy = true
end

-- Adds an amount to a kind's own window.
local function add(kind, amount, at)
  local known = balance(kind, at)
  redis.call('HINCRBY', kind.amounts, kind.window, whole(amount))
  changes[kind.windows] = (changes[kind.windows] or 0) + 1
  known.used, known.changes = known.used + amount, changes[kind.windows]
  known.start, known.reset = math.min(known.start, kind.start), math.min(known.reset, kind.reset)
  if not kind.tidy then
    tidy(kind, at)
  end
end

-- Charges one bill and returns its line.
local function charge(key, text)
  local numbers = string.gmatch(text, '-?%d+')
  local at, memory = tonumber(numbers()), numbers()
  local mine = {}
  for i in numbers do mine[#mine + 1] = kinds[tonumber(i)] end

  local taken = {}
  local known = redis.call('GET', key)
  if known then
    for amount in string.gmatch(string.sub(known, 3), '%d+') do
      taken[#taken + 1] = amount
    end
    if #taken ~= #mine then
      return 'other'
    end
  else
    for i, kind in ipairs(mine) do
      local before = balance(kind, at)
      local left = kind.limit - before.used
      if kind.limit == -1 or kind.amount <= left then
        taken[i] = kind.amount
      elseif kind.least > 0 and left >= kind.least then
        taken[i] = left
      else
        return table.concat({'refused', i, whole(before.used), whole(before.reset)}, ' ')
      end
    end
    for i, kind in ipairs(mine) do
      add(kind, taken[i], at)
      taken[i] = whole(taken[i])
    end
    -- Last, so that a bill is not known of which something was not taken.
    redis.call('SET', key, 'o:' .. table.concat(taken, ','), 'PX', memory)
  end

  local line = {'charged'}
  for i, kind in ipairs(mine) do
    local now = balance(kind, at)
    line[#line + 1] = taken[i]
    line[#line + 1] = whole(now.used)
    line[#line + 1] = whole(now.start)
    line[#line + 1] = whole(now.reset)
  end
  return table.concat(line, ' ')
end

-- A counter in whose place is something else fails its own bills alone. Where all
-- fail, as at a server that only reads, the error is that of the script.
local lines, answered, failure = {}, false, nil
local args, keys = 2 + 7 * #kinds, 2 + 2 * #kinds
for i = 1, #KEYS - keys do
  local ok, line = pcall(charge, KEYS[keys + i], ARGV[args + i])
  if ok then
    answered = true
  else
    failure = string.gsub(tostring(type(line) == 'table' and line.err or line), '%s+', ' ')
    line = 'failed ' .. failure
  end
  lines[i] = line
end
if not answered then
  return redis.error_reply(failure)
end
-- Counters that have expired leave the index, a few with each charge.
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. whole(now), 'LIMIT', 0, #kinds + 4)) do
  redis.call('ZREM', KEYS[2], gone)
end
return table.concat(lines, '\n')
