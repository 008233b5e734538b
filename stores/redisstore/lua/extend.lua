#!lua flags=allow-oom
-- Makes a lease run afresh. ARGV: 1 owner and fence, 2 microseconds from now, 3 the name of the index, or ''.
-- Returns 1, or 0 if the lease is lost.
local h = redis.call('GETRANGE', KEYS[1], 0, 66)
if h ~= '' and h:byte(1) ~= 1 then return redis.error_reply('FORMAT of a record is unknown') end
if h:sub(4, 27) ~= ARGV[1] or h:byte(2) ~= 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ended, _, key = struct.unpack('>I8I8I8', h, 28)
if now >= ended + key then return 0 end
local ends = now + ARGV[2]
if ends > 9007199254740991 then ends = 9007199254740991 end
redis.call('SETRANGE', KEYS[1], 27, struct.pack('>I8', ends))
local till = math.floor((ends + key) / 1000) + 600000
redis.call('PEXPIREAT', KEYS[1], till)
keep(ARGV[3], h:byte(3), struct.unpack('>I8', h, 60), now, till)
if ends <= now and h:byte(3) % 4 > 1 then redis.call('SPUBLISH', KEYS[1], '') end
return 1
