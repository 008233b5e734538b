SELECT name, value, {{now}} FROM {{progress}}
