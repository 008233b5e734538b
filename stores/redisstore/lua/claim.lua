-- Claims a key. Without a record, or with one that is past its retention, it writes a new one.
-- ARGV: 1 owner, 2 lease and 3 Key window in microseconds, 4 the three windows packed, 5 attempt and what follows it in
-- a new record, 6 '1' to take over, 7 the name of the index, or '', 8 class, 9 digest, 10 and on: by what a new record
-- is found in the index.
-- Returns the time if the fence of a new record is the time; {time, fence} if the fence is larger; otherwise
-- {time, verdict, record}. Returns 0 if it needs the second key, the list of older records, and was given only one.
local v = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ends = now + ARGV[2]
if ends > 9007199254740991 then ends = 9007199254740991 end
local expire = math.floor((ends + ARGV[3]) / 1000) + 600000
local fence, flags = now, 0
if v then
	if v:byte(1) ~= 1 then return redis.error_reply('FORMAT of a record is unknown') end
	local state = v:byte(2)
	local last = struct.unpack('>I8', v, 20)
	if last >= fence then fence = last + 1 end
	if v:byte(3) % 4 > 1 then flags = 2 end
	if state > 0 then
		local ended, replay, key, audit = struct.unpack('>I8I8I8I8', v, 28)
		if now < ended + key then
			if state > 2 then
				if now >= ended + replay then
					local a, b, c = struct.unpack('>HHH', v, 92)
					local at = 97 + a + b + c
					v = v:sub(1, at + tags(function(from, to) return v:sub(from, to) end, at + 1))
				end
				return {now, 3, v}
			end
			if state == 1 and v:sub(4, 19) == ARGV[1] then
				v = v:sub(1, 27) .. struct.pack('>I8', ends) .. ARGV[4] .. v:sub(60)
			else
				local n = struct.unpack('>H', ARGV[5], 21)
				local same = v:sub(96, 97 + n) == ARGV[5]:sub(21, 22 + n)
				if state == 1 then
					if now < ended then return {now, 2, v} end
					if not same or ARGV[6] ~= '1' then return {now, 4, v} end
				elseif not same then
					return {now, 2, v}
				end
				flags = v:byte(3) - v:byte(3) % 4 + flags
				v = '\1\1' .. string.char(flags) .. ARGV[1] .. struct.pack('>I8I8', fence, ends) .. ARGV[4]
					.. v:sub(60, 75) .. struct.pack('>I4', struct.unpack('>I4', v, 76) + 1) .. v:sub(80)
			end
			-- A full server refuses SET, unless the script has written before. What it has accepted goes on.
			redis.call('PEXPIREAT', KEYS[1], expire)
			redis.call('SET', KEYS[1], v, 'PXAT', expire)
			keep(ARGV[7], v:byte(3), struct.unpack('>I8', v, 60), now, expire)
			return {now, 1, v}
		end
		if state > 2 and now < ended + audit then
			-- The new record must not take away the old one, which people may read for longer than its key is taken.
			local older = KEYS[2]
			if not older then return 0 end
			redis.call('LPUSH', older, v)
			local oldest = redis.call('LINDEX', older, -1)
			while true do
				local e, _, _, a = struct.unpack('>I8I8I8I8', oldest, 28)
				if now < e + a then break end
				redis.call('RPOP', older)
				oldest = redis.call('LINDEX', older, -1)
			end
			local till = math.floor((ended + audit) / 1000) + 600000
			if till > redis.call('PEXPIRETIME', older) then redis.call('PEXPIREAT', older, till) end
		end
	end
end
local f = struct.pack('>I8', fence)
if ARGV[7] ~= '' then flags = flags + 4 * ARGV[8] end
redis.call('SET', KEYS[1], '\1\1' .. string.char(flags) .. ARGV[1] .. f .. struct.pack('>I8', ends) .. ARGV[4] .. f
	.. struct.pack('>I8', now) .. ARGV[5], 'PXAT', expire)
if ARGV[7] ~= '' then index(ARGV[7], ARGV[8], fence, now, ARGV[9], ARGV, 10) end
if fence == now then return now end
return {now, fence}
