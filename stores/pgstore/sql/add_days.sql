-- From today on, as the server has it.
SELECT {{schema}}.add_days({{schema}}.clock() / 86400000000, $1)
