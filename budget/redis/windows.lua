-- What counts of a counter: the windows that end after a time and begin before
-- another one. Start and reset are nil where nothing is used.
local function sum(windows, amounts, after, before)
  local used, start, reset = 0, nil, nil
  local names = redis.call('ZRANGEBYSCORE', windows, '(' .. after, '+inf')
  if #names == 0 then
    return used
  end
  local values = redis.call('HMGET', amounts, unpack(names))
  for i, window in ipairs(names) do
    local from, to = string.match(window, '^(-?%d+):(-?%d+)$')
    from, to = tonumber(from), tonumber(to)
    local amount = tonumber(values[i] or 0)
    if amount ~= 0 and from < before then
      used = used + amount
      if start == nil or from < start then start = from end
      if reset == nil or to < reset then reset = to end
    end
  end
  return used, start, reset
end

