package diagnose

// Scrub takes out of an object, or of a list of them, what no report needs and
// what may hold a secret, as is done with all that a diagnosis records.
func Scrub(body []byte) []byte { return scrubBody(body) }
