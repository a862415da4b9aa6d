-- Counts a call in the row of identical calls of one caller.
-- The row is a hash: "call", "count", "ended" (the end of the latest call, in microseconds of
-- the server's clock), and "@GATEWAY" for each gateway where one of them runs: the instant
-- until which it counts as running. A gateway asks only when none runs at it.
-- KEYS: the row. ARGV: begin, look or end; the gateway, the call, the limit, and in
-- microseconds the pause that ends a row, the time for which a full one is refused, and how
-- long a call counts as running.
-- Returns {COUNT, 0}, or {-1, WAIT} for a call that is refused.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local op, me, call = ARGV[1], '@' .. ARGV[2], ARGV[3]
local most, pause, hold, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

if op == 'end' then
  if redis.call('HGET', KEYS[1], 'call') == call then
    redis.call('HDEL', KEYS[1], me)
    redis.call('HSET', KEYS[1], 'ended', string.format('%.0f', now))
  end
  return {0, 0}
end

local row = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do row[all[i]] = all[i + 1] end
local count, ended, running = tonumber(row.count or 0), math.min(tonumber(row.ended or now), now), false
for name, till in pairs(row) do
  if string.sub(name, 1, 1) == '@' and name ~= me and tonumber(till) > now then running = true end
end
local rest = now - ended
local over = not running and (rest >= hold or rest > pause and count < most)
local other = row.call ~= call or over
if other then count, ended, running = 0, now, false end
if not running then
  if count >= most then return {-1, hold - rest} end
  count = count + 1
end
if op == 'begin' then
  if other then redis.call('DEL', KEYS[1]) end
  redis.call('HSET', KEYS[1], 'call', call, 'count', count, 'ended', string.format('%.0f', ended), me, string.format('%.0f', now + lease))
  redis.call('PEXPIRE', KEYS[1], math.ceil((lease + hold) / 1000))
end
return {count, 0}
