-- Takes all charges of a bill, or none.
-- KEYS: the epoch, the bill, the index of counters; then of each charge the
-- windows of its counter (a sorted set "start:end" by end) and the amounts in them.
-- ARGV: the epoch, the time of the charge, how long the bill is remembered, how
-- many charges; then of each its start, end, amount, least, limit, how long the
-- counter is kept from now on, how long a window is kept after its end, and its
-- name in the index. Times are in milliseconds.
-- Returns {"lost"}, or {"refused", charge, used, reset}, or {"charged"} and of
-- each charge what was taken and is used, the first start and the first end.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {'lost'}
end
local at, count = tonumber(ARGV[2]), tonumber(ARGV[4])

local function whole(n)
  return string.format('%.0f', n)
end

-- What counts of the i-th charge's counter: the windows that begin before its own
-- ends, and end after the time.
local function sum(i)
  local windows, amounts, first = KEYS[2 + 2 * i], KEYS[3 + 2 * i], 4 + 8 * (i - 1)
  local before = tonumber(ARGV[first + 2])
  local used, start, reset = 0, nil, nil
  for _, window in ipairs(redis.call('ZRANGEBYSCORE', windows, '(' .. ARGV[2], '+inf')) do
    local from, to = string.match(window, '^(-?%d+):(-?%d+)$')
    from, to = tonumber(from), tonumber(to)
    local amount = tonumber(redis.call('HGET', amounts, window) or 0)
    if amount ~= 0 and from < before then
      used = used + amount
      if start == nil or from < start then start = from end
      if reset == nil or to < reset then reset = to end
    end
  end
  if used == 0 then
    start, reset = tonumber(ARGV[first + 1]), before
  end
  return used, start, reset
end

local taken = {}
local known = redis.call('GET', KEYS[2])
if known then
  for amount in string.gmatch(string.sub(known, 3), '%d+') do
    taken[#taken + 1] = tonumber(amount)
  end
  if #taken ~= count then
    return redis.error_reply('ERR the bill is another one')
  end
else
  for i = 1, count do
    local first = 4 + 8 * (i - 1)
    local amount, least, limit = tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5])
    local used, _, reset = sum(i)
    if limit == -1 or used <= limit - amount then
      taken[i] = amount
    elseif least > 0 and limit - used >= least then
      taken[i] = limit - used
    else
      return {'refused', i, used, reset}
    end
  end

  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local text = {}
  for i = 1, count do text[i] = whole(taken[i]) end
  redis.call('SET', KEYS[2], 'o:' .. table.concat(text, ','), 'PX', ARGV[3])
  for i = 1, count do
    local windows, amounts, first = KEYS[2 + 2 * i], KEYS[3 + 2 * i], 4 + 8 * (i - 1)
    local window = ARGV[first + 1] .. ':' .. ARGV[first + 2]
    local expiry, keep, name = tonumber(ARGV[first + 6]), tonumber(ARGV[first + 7]), ARGV[first + 8]
    redis.call('HINCRBY', amounts, window, whole(taken[i]))
    redis.call('ZADD', windows, ARGV[first + 2], window)
    -- Windows that have ended long ago, by both clocks.
    for _, old in ipairs(redis.call('ZRANGEBYSCORE', windows, '-inf', whole(math.min(at, now) - keep), 'LIMIT', 0, 16)) do
      redis.call('HDEL', amounts, old)
      redis.call('ZREM', windows, old)
    end
    if redis.call('PTTL', windows) < expiry then
      redis.call('PEXPIRE', windows, whole(expiry))
      redis.call('PEXPIRE', amounts, whole(expiry))
      redis.call('ZADD', KEYS[3], whole(now + expiry), name)
    end
  end
  -- Counters that have expired leave the index, a few with each charge.
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. whole(now), 'LIMIT', 0, count + 4)) do
    redis.call('ZREM', KEYS[3], gone)
  end
end

local answer = {'charged'}
for i = 1, count do
  local used, start, reset = sum(i)
  answer[#answer + 1] = taken[i]
  answer[#answer + 1] = used
  answer[#answer + 1] = start
  answer[#answer + 1] = reset
end
return answer
