package pipeline

import "regexp"

// stepsUse is how an expression names a step. What it cannot tell names any.
var stepsUse = regexp.MustCompile(`\bsteps\b\s*(?:\.\s*([A-Za-z_]\w*)\s*(\()?|\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\])?`)

// RefersTo reports whether an expression of the step may use what another one delivered.
func (s *Step) RefersTo(id string) bool {
	if namesStep(s.If, id) {
		return true
	}
	if s.Approval != nil && namesStep(s.Approval.Prompt, id) {
		return true
	}
	for _, source := range s.With {
		if namesStep(source, id) {
			return true
		}
	}
	return false
}

func namesStep(source, id string) bool {
	for _, m := range stepsUse.FindAllStringSubmatch(source, -1) {
		if name := m[1] + m[3] + m[4]; name == id || name == "" || m[2] != "" {
			return true
		}
	}
	return false
}
