package config

import "github.com/retrysafe/retrysafe/internal/yamlfile/settings"

// describe returns the fields of a file in their order.
func describe() []settings.Entry {
	c := &Config{}
	if err := c.FillIn(); err != nil {
		panic(err) // nothing is set, so nothing contradicts
	}
	c.Defaults = c.Defaults.inForce()
	return proxyFile.Describe(c)
}

// Help returns a sentence about the setting that has the given name in the file, such as tls.cert, and its default.
func Help(name string) string { return settings.Help(describe(), name) }

// Schema returns the JSON Schema of a file, for editors. It knows the names of the settings, what each is for, and the
// form of its value. What makes no sense together, only Parse finds.
func Schema() string {
	root := proxyFile.Schema(describe())
	fields := root["properties"].(settings.Schema)
	route := fields["defaults"].(settings.Schema)
	root["$defs"] = settings.Schema{"route": settings.Schema{
		"type": "object", "additionalProperties": false, "properties": route["properties"],
	}}
	perRoute := settings.Schema{"$ref": "#/$defs/route"}
	fields["defaults"] = settings.Schema{"$ref": "#/$defs/route", "description": route["description"]}
	fields["routes"].(settings.Schema)["additionalProperties"] = settings.Schema{
		"anyOf": []settings.Schema{perRoute, {"type": "null"}},
	}
	return root.Document("The file of retrysafe proxy --config")
}
