package report

import (
	"bytes"
	_ "embed"
)

//go:embed report.schema.json
var schema []byte

// Schema returns the JSON Schema of report.json.
func Schema() []byte { return bytes.Clone(schema) }
