(date_part('epoch', clock_timestamp()) * 1e6)::bigint
