-- Takes one token from each bucket and window, or from none; with "look" as the last of
-- ARGV it takes none and says what it would.
-- A bucket is the instant until which it owes (GCRA), in microseconds of the server's
-- clock. A window is the time of the first call of its newest group, and of each group
-- the time of its last call and its calls: "FIRST;LAST:CALLS,LAST:CALLS".
-- KEYS: the buckets and windows. ARGV: of each its kind, then for a bucket the time of
-- one token and that of a full bucket, for a window its limit and length.
-- Returns {0, 0}, or which one has the longest wait and that wait.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local refused, wait = 0, 0
local look = ARGV[3 * #KEYS + 1] == 'look'
local after = {}

local function owed(key, interval, burst)
  local before = tonumber(redis.call('GET', key) or now)
  if before > now + burst and not look then -- of a longer window; from now on it flows back
    redis.call('SET', key, string.format('%.0f', now + burst), 'PX', math.ceil(burst / 1000) + 1)
  end
  local owes = math.min(math.max(before, now), now + burst) + interval
  return owes - now - burst, { string.format('%.0f', owes), owes - now }
end

local function counted(key, limit, length)
  local text = redis.call('GET', key) or ''
  local groups, calls = {}, 0
  for last, n in string.gmatch(text, '(%d+):(%d+)') do
    last = math.min(tonumber(last), now) -- the clock may have been set back
    if last > now - length then
      groups[#groups + 1] = { last, tonumber(n) }
      calls = calls + n
    end
  end
  local left = calls + 1 - limit
  for _, group in ipairs(groups) do
    if left <= 0 then break end
    left = left - group[2]
    if left <= 0 then return group[1] + length - now end
  end
  local first = tonumber(string.match(text, '^%d+') or 0)
  if #groups > 0 and (now - first) * 60 < length then
    groups[#groups] = { now, groups[#groups][2] + 1 }
  else
    first = now
    groups[#groups + 1] = { now, 1 }
  end
  for i, group in ipairs(groups) do
    groups[i] = string.format('%.0f:%.0f', group[1], group[2])
  end
  return 0, { string.format('%.0f;', first) .. table.concat(groups, ','), length }
end

for i, key in ipairs(KEYS) do
  local over
  local a, b = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  if ARGV[3 * i - 2] == 'sliding' then
    over, after[i] = counted(key, a, b)
  else
    over, after[i] = owed(key, a, b)
  end
  if over > wait then
    refused, wait = i, over
  end
end
if refused == 0 and not look then
  for i, key in ipairs(KEYS) do
    redis.call('SET', key, after[i][1], 'PX', math.ceil(after[i][2] / 1000) + 1)
  end
end
return {refused, wait}
