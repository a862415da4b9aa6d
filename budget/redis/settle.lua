-- Ends a bill: of each charge, what was taken and not used goes back.
-- KEYS: the epoch, the bill; then of each charge the amounts of its counter.
-- ARGV: the epoch; then of each charge its window ("start:end") and what was used.
-- Returns "lost", "other", when another bill has the key, or "settled".
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'lost'
end
local bill = redis.call('GET', KEYS[2])
if not bill or string.sub(bill, 1, 1) ~= 'o' then
  return 'settled'
end
local taken = {}
for amount in string.gmatch(string.sub(bill, 3), '%d+') do
  taken[#taken + 1] = tonumber(amount)
end
if #taken ~= #KEYS - 2 then
  return 'other'
end
redis.call('SET', KEYS[2], 's' .. string.sub(bill, 2), 'KEEPTTL')
for i, amount in ipairs(taken) do
  local window, rest = ARGV[2 * i], amount - math.min(tonumber(ARGV[2 * i + 1]), amount)
  if rest > 0 and redis.call('HEXISTS', KEYS[2 + i], window) == 1 then
    redis.call('HINCRBY', KEYS[2 + i], window, '-' .. string.format('%.0f', rest))
  end
end
return 'settled'
