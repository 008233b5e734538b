#!lua flags=allow-oom
-- Replaces a record that has ended by one that is released now. ARGV: 1 the record as it was, 2 as it is to be, 3 the
-- name of the index, or ''. Returns 1, or 0 if the record has changed or is past its retention.
local v = ARGV[2]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ended, _, key = struct.unpack('>I8I8I8', ARGV[1], 28)
if now >= ended + key then return 0 end
local till = math.floor((now + key) / 1000) + 600000
redis.call('SET', KEYS[1], v:sub(1, 27) .. struct.pack('>I8', now) .. v:sub(36), 'PXAT', till)
keep(ARGV[3], v:byte(3), struct.unpack('>I8', v, 60), now, till)
if v:byte(3) % 4 > 1 then redis.call('SPUBLISH', KEYS[1], '') end
return 1
