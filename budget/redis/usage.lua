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
    local windows, amounts = 'toolgate:{budgets}:w:' .. hash, 'toolgate:{budgets}:a:' .. hash
    local used, start, reset = 0, nil, nil
    for _, window in ipairs(redis.call('ZRANGEBYSCORE', windows, '(' .. ARGV[2], '+inf')) do
      local first, last = string.match(window, '^(-?%d+):(-?%d+)$')
      first, last = tonumber(first), tonumber(last)
      local amount = tonumber(redis.call('HGET', amounts, window) or 0)
      if amount ~= 0 and first <= at then
        used = used + amount
        if start == nil or first < start then start = first end
        if reset == nil or last < reset then reset = last end
      end
    end
    if used > 0 then
      answer[#answer + 1] = name
      answer[#answer + 1] = used
      answer[#answer + 1] = start
      answer[#answer + 1] = reset
    end
  end
end
return answer
