SELECT first_fence, records FROM {{blocks}} ORDER BY first_fence DESC LIMIT 1
