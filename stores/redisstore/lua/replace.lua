#!lua flags=allow-oom
-- Replaces the records of a key by others, unless they have changed. ARGV: 1 the number n of older records, 2 the
-- record as it was, 3 as it is to be, then n older ones as they were, then n as they are to be. Lifetimes stay.
-- Returns 1, or 0 if a record has changed.
local older = KEYS[2]
local n = tonumber(ARGV[1])
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return 0 end
local found = redis.call('LRANGE', older, 0, -1)
if #found ~= n then return 0 end
for i = 1, n do
	if found[i] ~= ARGV[3 + i] then return 0 end
end
if ARGV[3] ~= ARGV[2] then redis.call('SET', KEYS[1], ARGV[3], 'KEEPTTL') end
for i = 1, n do
	if ARGV[3 + n + i] ~= found[i] then redis.call('LSET', older, i - 1, ARGV[3 + n + i]) end
end
return 1
