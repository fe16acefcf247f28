package diagnose

import (
	"fmt"
	"regexp"

	"nightcrier.dev/nightcrier"
)

var dependencyRules = area{of: []Rule{dependencyAway}}

var dependencyCauses = []Cause{
	{"dependency-unreachable", "Network", "what a container connects to does not answer, by its own words", rankFollows + 2},
}

// farSide matches log lines about another party that does not answer.
var farSide = regexp.MustCompile(`(?i)connection refused|no such host|name or service not known|temporary failure in name resolution|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|i/o timeout|connect(ion)? timed out|ETIMEDOUT|no route to host|host is unreachable`)

// dependencyAway finds containers that fail because what they connect to does
// not answer, by their own words. It ranks below how the container ended: the
// log is the container's view, and the other side was not asked.
func dependencyAway(f *Facts) []Finding {
	var out []Finding
	for c := range f.containers() {
		l, ok := f.logOf(c)
		if !ok || c.recovered(f.Now) {
			continue
		}
		line := oneLine(errorLine(l.Text), maxQuote)
		if !farSide.MatchString(line) {
			continue
		}
		out = append(out, Finding{
			Cause: "dependency-unreachable", Object: f.Mend(), Confidence: nightcrier.Low,
			Summary:  fmt.Sprintf("%s fails because something it connects to does not answer: %s", c.in(f), line),
			Observed: []Observation{sawLog(c, l, line)},
			WrongIf:  "the address in its configuration is wrong, or the other side answers everybody else",
			Test: list(c.pod.Object.Namespace, "endpointslices").
				decides("the service it names has no ready endpoint, or is not there", "the service it names has ready endpoints"),
			Actions: dependencyActions(),
		})
	}
	return out
}

func dependencyActions() []nightcrier.Action {
	return []nightcrier.Action{
		{Action: "Check that the service that the log names exists and has ready endpoints", Outcome: "tells a dependency that is down from a wrong address", Risk: "none: read only"},
		{Action: "Check the network policies between the two", Outcome: "tells whether the connection is forbidden", Risk: "none: read only"},
	}
}
