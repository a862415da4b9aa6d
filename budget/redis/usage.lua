-- What is used of counters at a time. It is one instant for as many counters as
-- are looked at.
-- KEYS: the epoch, the index. ARGV: the epoch, the time, from which counter on,
-- how many, and what the names of those that are wanted begin with.
-- Returns {"lost"}, or {"used", looked at} and of each counter with something
-- used its name, that, the first start and the first end.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {'lost'}
end
local at, from, many, prefix = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local names = redis.call('ZRANGE', KEYS[2], from, from + many - 1)
local answer = {'used', #names}
for _, name in ipairs(names) do
  if string.sub(name, 1, #prefix) == prefix then
    local hash = string.sub(name, -32)
    local used, start, reset = sum('toolgate:{budgets}:w:' .. hash, 'toolgate:{budgets}:a:' .. hash, ARGV[2], at + 1)
    if used > 0 then
      answer[#answer + 1] = name
      answer[#answer + 1] = used
      answer[#answer + 1] = start
      answer[#answer + 1] = reset
    end
  end
end
return answer
