package mcp

import (
	"fmt"
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

var unfit = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// shownName is what models call a tool of a server. It is cut where a CLI or a model's
// API would not take it whole.
func shownName(server, tool string) string {
	name := server + "_" + strings.Trim(unfit.ReplaceAllString(tool, "_"), "_")
	if len(name) > maxShownName {
		name = fmt.Sprintf("%s_%.6s", name[:maxShownName-7], text.DigestOf([]byte(tool)))
	}
	return name
}

// maxShownName is what the endpoint takes.
const maxShownName = 47
