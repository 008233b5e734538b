#!lua flags=allow-oom
-- Saves a step behind those that are there. ARGV: 1 owner and fence, 2 the step's name, 3 the step packed.
-- Returns 1, or 0 if the lease is lost.
local h = redis.call('GETRANGE', KEYS[1], 0, 96)
if h ~= '' and h:byte(1) ~= 1 then return redis.error_reply('FORMAT of a record is unknown') end
if h:sub(4, 27) ~= ARGV[1] or h:byte(2) ~= 1 then return 0 end
local t = redis.call('TIME')
local ended, _, key = struct.unpack('>I8I8I8', h, 28)
if t[1] * 1000000 + t[2] >= ended + key then return 0 end
local steps = struct.unpack('>I4', h, 80)
local a, b, c = struct.unpack('>HHH', h, 92)
local at = 97 + a + b + c
local last = at + steps
while at < last do
	-- Only lengths and names are read, so that large steps cost nothing here.
	local name, data = struct.unpack('>I4I4', redis.call('GETRANGE', KEYS[1], at, at + 7))
	if name == #ARGV[2] and redis.call('GETRANGE', KEYS[1], at + 8, at + 7 + name) == ARGV[2] then return 1 end
	at = at + 8 + name + data
end
redis.call('APPEND', KEYS[1], ARGV[3])
redis.call('SETRANGE', KEYS[1], 79, struct.pack('>I4', steps + #ARGV[3]))
return 1
