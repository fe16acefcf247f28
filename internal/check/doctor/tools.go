package doctor

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/mcp"
)

// checkToolServers looks at what each server offers.
func checkToolServers(all []mcp.Offered) (checks []Check) {
	const hint = "nightcrier tools list shows what the server has and why agents do not get it"
	for _, o := range all {
		c := Check{Code: CheckTools, Name: o.Server}
		offered := slices.DeleteFunc(slices.Clone(o.Tools), func(t mcp.Offer) bool { return !t.Offered })
		names := make([]string, len(offered))
		for i, t := range offered {
			names[i] = t.ShownAs
		}
		switch {
		case o.Error != "":
			c = c.asFailed(fmt.Errorf("%s", o.Error), "investigations go on without its tools")
			c.Status = statusWarn
		case len(offered) == 0:
			c = c.asFailed(fmt.Errorf("agents get none of its %d tools", len(o.Tools)), hint)
			c.Status = statusWarn
		default:
			detail := fmt.Sprintf("agents get %d of its %d tools: %s", len(offered), len(o.Tools), strings.Join(names, ", "))
			c = c.asOK(strings.Join(append([]string{detail}, o.Notes...), "; "))
		}
		checks = append(checks, c)
	}
	return checks
}
