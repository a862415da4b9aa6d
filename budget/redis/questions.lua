-- Answers questions about rates and rows of identical calls, one after the other.
-- KEYS: of each question its row, if it has one, and its buckets and windows.
-- ARGV: the pause that ends a row, the time for which a full one is refused, and how long a
-- call counts as running, in microseconds; then of each question a text of words: what it
-- asks of a row ("begin", "look", "end", with the gateway, the call and the limit, or "-"
-- alone); whether it takes or looks at tokens ("take", "look"); and of each token its kind,
-- then for a bucket the time of one token and that of a full bucket, for a window its limit
-- and length.
-- Returns a line for each question: "failed WHY", or four numbers: the count of the row and
-- the wait, -1 and the wait for a call that is refused; then 0 and 0, or which token has the
-- longest wait and that wait. A refused call takes nothing.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local pause, hold, lease = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local function whole(n)
  return string.format('%.0f', n)
end

-- A row is a hash: "call", "count", "ended" (the end of the latest call, in microseconds of
-- the server's clock), and "@GATEWAY" for each gateway where one of them runs: the instant
-- until which it counts as running. A gateway asks only when none runs at it.
local function inRow(key, op, gateway, call, most)
  local me = '@' .. gateway
  if op == 'end' then
    if redis.call('HGET', key, 'call') == call then
      redis.call('HDEL', key, me)
      redis.call('HSET', key, 'ended', whole(now))
    end
    return 0, 0
  end
  local row = {}
  local all = redis.call('HGETALL', key)
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
    if count >= most then return -1, hold - rest end
    count = count + 1
  end
  if op == 'begin' then
    if other then redis.call('DEL', key) end
    redis.call('HSET', key, 'call', call, 'count', count, 'ended', whole(ended), me, whole(now + lease))
    redis.call('PEXPIRE', key, math.ceil((lease + hold) / 1000))
  end
  return count, 0
end

-- A bucket is the instant until which it owes (GCRA), in microseconds of the server's clock.
local function owed(key, interval, burst, look)
  local before = tonumber(redis.call('GET', key) or now)
  if before > now + burst and not look then -- of a longer window; from now on it flows back
    redis.call('SET', key, whole(now + burst), 'PX', math.ceil(burst / 1000) + 1)
  end
  local owes = math.min(math.max(before, now), now + burst) + interval
  return owes - now - burst, whole(owes), owes - now
end

-- A window is the time of the first call of its newest group, and of each group the time of
-- its last call and its calls: "FIRST;LAST:CALLS,LAST:CALLS".
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
  return 0, string.format('%.0f;', first) .. table.concat(groups, ','), length
end

-- Takes one token from each bucket and window, or from none.
local function take(question)
  local refused, wait, after = 0, 0, {}
  for i, token in ipairs(question) do
    local over, text, lasts
    if token.kind == 'sliding' then
      over, text, lasts = counted(token.key, token.a, token.b)
    else
      over, text, lasts = owed(token.key, token.a, token.b, question.look)
    end
    after[i] = { text, lasts }
    if over > wait then
      refused, wait = i, over
    end
  end
  if refused == 0 and not question.look then
    for i, token in ipairs(question) do
      redis.call('SET', token.key, after[i][1], 'PX', math.ceil(after[i][2] / 1000) + 1)
    end
  end
  return refused, wait
end

local function answer(question)
  local count, hold, refused, wait = 0, 0, 0, 0
  if question.op then
    count, hold = inRow(question.row, question.op, question.gateway, question.call, question.most)
  end
  if count >= 0 then
    refused, wait = take(question)
  end
  return string.format('%.0f %.0f %.0f %.0f', count, hold, refused, wait)
end

local used = 0
local function key()
  used = used + 1
  return KEYS[used]
end

local function read(text)
  local word = string.gmatch(text, '%S+')
  local question = {}
  local op = word()
  if op ~= '-' then
    question.row, question.op, question.gateway, question.call, question.most = key(), op, word(), word(), tonumber(word())
  end
  question.look = word() == 'look'
  for kind in word do
    question[#question + 1] = { key = key(), kind = kind, a = tonumber(word()), b = tonumber(word()) }
  end
  return question
end

-- A key in whose place is something else fails its own questions alone. Where all fail, as
-- at a server that only reads, the error is that of the script.
local lines, answered, failure = {}, false, nil
for i = 4, #ARGV do
  local ok, line = pcall(answer, read(ARGV[i]))
  if ok then
    answered = true
  else
    failure = string.gsub(tostring(type(line) == 'table' and line.err or line), '%s+', ' ')
    line = 'failed ' .. failure
  end
  lines[#lines + 1] = line
end
if not answered then
  return redis.error_reply(failure)
end
return table.concat(lines, '\n')
