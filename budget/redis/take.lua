-- Takes one token from each bucket, or from none (GCRA); with "look" as the last of
-- ARGV it takes none and says what it would. A bucket is the instant
-- until which it owes, in microseconds of the server's clock.
-- KEYS: the buckets. ARGV: of each, the time of one token and that of a full bucket.
-- Returns {0, 0}, or which bucket has the longest wait and that wait.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local refused, wait = 0, 0
local look = ARGV[2 * #KEYS + 1] == 'look'
local owed = {}
for i, key in ipairs(KEYS) do
  local interval, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local before = tonumber(redis.call('GET', key) or now)
  if before > now + burst and not look then -- of a longer window; from now on it flows back
    redis.call('SET', key, string.format('%.0f', now + burst), 'PX', math.ceil(burst / 1000) + 1)
  end
  owed[i] = math.min(math.max(before, now), now + burst) + interval
  local over = owed[i] - now - burst
  if over > wait then
    refused, wait = i, over
  end
end
if refused == 0 and not look then
  for i, key in ipairs(KEYS) do
    redis.call('SET', key, string.format('%.0f', owed[i]), 'PX', math.ceil((owed[i] - now) / 1000) + 1)
  end
end
return {refused, wait}
