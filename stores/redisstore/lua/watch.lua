#!lua flags=allow-oom
-- Marks a record, so that the end of its attempt is published. Without a record, the mark waits for one for an hour.
local h = redis.call('GETRANGE', KEYS[1], 0, 2)
if h == '' then
	redis.call('SET', KEYS[1], '\1\0\2' .. string.rep('\0', 24), 'PX', 3600000)
elseif h:byte(1) ~= 1 then
	return redis.error_reply('FORMAT of a record is unknown')
elseif h:byte(3) % 4 < 2 then
	redis.call('SETRANGE', KEYS[1], 2, string.char(h:byte(3) + 2))
end
return 1
